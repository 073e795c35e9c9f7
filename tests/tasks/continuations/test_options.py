"""`GenerationOptions`: its fields are arguments of each `generate` that it reads them from."""

import dataclasses
import inspect

from keras_transfer import tasks
from keras_transfer.tasks.options import GenerationOptions


def test_the_fields_are_the_arguments_of_each_generate_that_uses_them():
    classes = {base for name in tasks.__all__ for base in inspect.getmro(getattr(tasks, name)) if inspect.isclass(base)}
    methods = {inspect.unwrap(vars(cls)["generate"]) for cls in classes if "generate" in vars(cls)}
    methods = {method for method in methods if "GenerationOptions" in method.__code__.co_names}
    assert {inspect.unwrap(task.generate) for task in (tasks.Seq2SeqLM, tasks.CausalLM)} <= methods
    fields = dataclasses.fields(GenerationOptions)
    optional = {field.name for field in fields if field.default is not dataclasses.MISSING}
    for method in methods:
        names = {name for name, each in inspect.signature(method).parameters.items() if each.kind is each.KEYWORD_ONLY}
        assert names | optional == {field.name for field in fields}, method
    assert optional == {"max_length"}
