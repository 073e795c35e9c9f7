"""Two tasks over one encoder: each answers with the adapters and the head that it was last given, or says why not."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation as kt
from keras_transfer.tasks import TextClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import INPUTS, LABELS, outputs, randomize, train
from tests.errors import check_errors
from tests.helpers import save_and_load

CHANGED = "changed through another task"


def two_tasks():
    encoder = models.encoder()
    return [TextClassifier(encoder, num_classes=2, dropout=0.0, name=name) for name in ("first", "second")]


def head(model):
    return [np.array(value) for value in model.get_layer("logits").get_weights()]


def assert_heads_equal(ours, theirs):
    for value, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(value, expected)


def uses(model, folder):
    """Everything that answers, evaluates or saves, by name."""
    inputs = {name: INPUTS[name] for name in model.input}
    return {
        "the call": lambda: model(inputs),
        "predict": lambda: model.predict(inputs, verbose=0),
        "predict_on_batch": lambda: model.predict_on_batch(inputs),
        "evaluate": lambda: model.evaluate(inputs, LABELS, verbose=0),
        "fit": lambda: model.fit(inputs, LABELS, verbose=0),
        "train_on_batch": lambda: model.train_on_batch(inputs, LABELS),
        "save": lambda: model.save(folder / "model.keras"),
        "save_model": lambda: keras.saving.save_model(model, folder / "model.keras"),
        "save_weights": lambda: model.save_weights(folder / "model.weights.h5"),
        "save_adapters": lambda: kt.save_adapters(model, folder / "file"),
        "merge_adapters": lambda: kt.merge_adapters(model),
    }


def test_a_task_says_that_another_one_has_changed_its_adapters(tmp_path):
    first, second = two_tasks()
    first.predict({name: INPUTS[name] for name in first.input}, verbose=0)  # Keras keeps what it traces here.
    first.compile(run_eagerly=True)
    kt.add_adapters(second, "lora:r=2")
    for name, use in uses(first, tmp_path).items():
        with pytest.raises(ValueError, match=CHANGED):
            use()
            pytest.fail(name)
    with pytest.raises(ValueError, match=r"`set_active_adapter\(model, None\)` to use its adapters again"):
        outputs(first)


def test_each_task_returns_to_its_own_adapters_and_head():
    first, second = two_tasks()
    plain = outputs(first)
    expected = {}
    for model, name in ((first, "a"), (second, "b")):
        train(randomize(kt.add_adapters(model, "lora:r=2", name=name), name))
        expected[name] = outputs(model)
    for model, name in ((first, "a"), (second, "b"), (first, "a")):
        kt.set_active_adapter(model, name)
        np.testing.assert_array_equal(outputs(model), expected[name])
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(first, None)), plain)


def test_a_task_does_not_give_its_head_to_the_adapters_of_another_one(tmp_path):
    first, second = two_tasks()
    train(kt.add_adapters(first, "lora:r=2", name="a"))
    train(kt.add_adapters(second, "lora:r=2", name="b"))
    with pytest.raises(ValueError, match="no head for these adapters.*Received: name='b'"):
        kt.save_adapters(first, tmp_path / "b", name="b")
    expected = head(first)
    again = kt.load_adapters(models.classifier(), kt.save_adapters(first, tmp_path / "a", name="a"))
    assert_heads_equal(head(again), expected)


def test_adapters_that_replace_others_under_the_same_name_do_not_get_their_head():
    first, second = two_tasks()
    train(kt.add_adapters(first, "lora:r=2"))
    kt.set_active_adapter(first, None)
    kt.remove_adapters(second)
    kt.add_adapters(second, "lora:r=2")
    before = head(first)
    kt.set_active_adapter(first, "default")
    assert_heads_equal(head(first), before)

    kt.remove_adapters(second)
    kt.add_adapters(second, "ia3")
    with pytest.raises(ValueError, match="since removed: .'default'."):
        outputs(first)


def test_removing_one_of_two_active_adapters_restores_the_head_of_the_other():
    model = train(kt.add_adapters(models.classifier(), "lora:r=2", name="a"))
    first = head(model)
    train(kt.add_adapters(model, "pfeiffer:2", name="b"))
    train(kt.set_active_adapter(model, ["a", "b"]))
    kt.remove_adapters(model, "b")
    assert_heads_equal(head(model), first)
    assert_heads_equal(head(save_and_load(model)), first)


def test_a_file_that_does_not_fit_leaves_a_task_with_what_it_was_given(tmp_path):
    file = kt.save_adapters(kt.add_adapters(models.masked(), "pfeiffer:2"), tmp_path / "a.safetensors")
    first, second = two_tasks()
    train(kt.add_adapters(first, "lora:r=2", name="a"))
    expected = outputs(first)
    kt.add_adapters(second, "ia3", name="b")
    with pytest.raises(ValueError, match="do not match the model"):
        kt.load_adapters(first, file)
    with pytest.raises(ValueError, match=CHANGED):
        outputs(first)
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(first, "a")), expected)


def test_a_task_whose_adapters_changed_says_that_it_must_be_compiled_again():
    model = train(models.classifier())
    kt.add_adapters(model, "lora:r=2")
    inputs = {name: INPUTS[name] for name in model.input}
    for method, call in (
        ("fit", lambda: model.fit(inputs, LABELS)),
        ("evaluate", lambda: model.evaluate(inputs, LABELS)),
        ("train_on_batch", lambda: model.train_on_batch(inputs, LABELS)),
    ):
        with pytest.raises(ValueError, match=f"adapters of the model have changed.*again before `{method}`"):
            call()
    train(model)


test_removing_saving_and_merging_without_adapters_say_what_to_do = check_errors(
    {
        "removing": (lambda: kt.remove_adapters(models.classifier()), "has no adapters. Call `add_adapters` first"),
        "saving": (lambda: kt.save_adapters(models.classifier(), "unwritten"), "Call `add_adapters` first"),
        "merging": (lambda: kt.merge_adapters(models.classifier()), "no active adapters to merge. Call `add_adapters`"),
        "merging what is not active": (
            lambda: kt.merge_adapters(kt.set_active_adapter(kt.add_adapters(models.classifier(), "lora:r=2"), None)),
            "Activate some with `set_active_adapter`. Received: ",
            "['default']",
        ),
    }
)
