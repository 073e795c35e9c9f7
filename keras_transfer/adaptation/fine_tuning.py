"""`fine_tune`, which calls `compile` and `fit` with the objects that a recipe builds."""

import dataclasses
import inspect
import logging
import math
from typing import Any

import keras
import numpy as np

from keras_transfer.adaptation.recipe import Recipe, get_recipe
from keras_transfer.core.expect import expect
from keras_transfer.core.names import check_arguments, closest
from keras_transfer.keras_internals import could_train
from keras_transfer.tasks import MultiTask, Task
from keras_transfer.training import build_optimizer, epochs_of_steps, fit_in_run

log = logging.getLogger("keras_transfer")


def fine_tune(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    validation_data: Any = None,
    recipe: str | Recipe = "bert",
    loss: Any = "auto",
    metrics: Any = "auto",
    callbacks: Any = (),
    **kwargs: Any,
) -> keras.callbacks.History:
    """Adapts a model with a recipe: freezes, compiles and fits it, and does nothing else.

    Weights that were already frozen, for example by another recipe, stay frozen, with a warning. To train all weights
    again, call `compile` with a new optimizer, then `unfreeze`, then `fine_tune`.

    Args:
        model: Task, `MultiTask`, or any built Keras model.
        x: Data in memory, or a dataset of batches with labels whose length is known: `text.batches`, or a
            `tf.data.Dataset`. For a task, `x` can be anything that `Task.dataset` accepts. For a `MultiTask`, it is a
            dict from the names of all tasks to `(x, y)` or other data that its `fit` accepts. For other models, data in
            memory must be arrays.
        y: Labels of data in memory. Defaults to `None`, for datasets, a `MultiTask`, and tasks that need no labels.
        sample_weight: Array of floats. Weights of the rows of data in memory. Defaults to `None`.
        validation_data: Tuple `(x, y)` or `(x, y, sample_weight)`, a dataset, or a dict of these for a `MultiTask`, to
            evaluate after each epoch. Defaults to `None`.
        recipe: Name of a recipe, or a `Recipe`. Defaults to `"bert"`.
        loss: Loss, its name, or a dict for a `MultiTask`, for `compile`. Defaults to `"auto"`, the loss of the task.
            Other models require a loss.
        metrics: List of metrics or their names, or a dict of lists for a `MultiTask`, for `compile`. Defaults to
            `"auto"`, the metrics of the task, or none for other models.
        callbacks: List of additional Keras callbacks. Defaults to `()`, for none.
        **kwargs: Other arguments of `fit`, such as `verbose` or `class_weight`.

    Returns:
        Keras's `History`.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If `recipe` is unknown; if nothing would be trainable; if `x` is empty or its number of batches is
            unknown; if `y` or `loss` is missing; or if the recipe has fewer `steps` than `x` has batches, and `x` has
            no `take`.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    x, y = np.random.normal(size=(32, 4)), np.random.normal(size=(32, 2))
    history = keras_transfer.adaptation.fine_tune(model, x, y, loss="mse", verbose=0)
    ```
    """
    plan = recipe if isinstance(recipe, Recipe) else get_recipe(recipe)
    taken = {"epochs", "batch_size", "validation_split"} & set(kwargs)
    rule = "Set `epochs` and `batch_size` in the recipe, and pass validation data as `validation_data`."
    expect(not taken, rule, taken=sorted(taken))
    _check_options(model, kwargs)
    is_task = isinstance(model, (Task, MultiTask))
    expect(loss != "auto" or is_task, "`loss` is required for a model that is not a task.", loss="auto")
    metrics = None if metrics == "auto" and not is_task else metrics
    data = _data_of_fit(model, x, y, sample_weight, plan.batch_size, kwargs)
    given = kwargs.get("steps_per_epoch")
    goes_on = given is not None or isinstance(model, MultiTask)  # Each epoch continues where the last one ended.
    steps = length = _length(data) if given is None else given
    plan = plan.resolve(model, length)
    epochs = plan.epochs
    if plan.steps is not None:
        epochs, steps = epochs_of_steps(data["x"], length, plan.steps, goes_on)
    if goes_on:
        kwargs["steps_per_epoch"] = steps
    elif steps != length:
        rule = (
            f"`steps` of the recipe must be at least the number of batches of this data, {length}. To end an epoch "
            "earlier, pass `steps_per_epoch`, or a dataset that has `take`."
        )
        expect("batch_size" not in data and hasattr(data["x"], "take"), rule, steps=plan.steps)
        data["x"] = data["x"].take(steps)
    frozen = sum(math.prod(weight.shape) for weight in could_train(model) if not weight.trainable)
    if frozen:
        log.warning("%d parameters were frozen before the recipe was applied and remain frozen.", frozen)
    plan.prepare(model)
    optimizer = plan.build_optimizer(model, epochs * steps)  # The adapters have already been added.
    model.compile(optimizer, loss=loss, metrics=metrics)
    build_optimizer(model)  # TensorFlow would trace the first step twice, the first time only to create its variables.
    callbacks = [*plan.build_callbacks(), *keras.tree.flatten(callbacks or [])]
    options = {**kwargs, "epochs": epochs, "validation_data": validation_data, "callbacks": callbacks}
    if is_task:
        return model.fit(**data, **options)
    weights, labels = options.get("class_weight"), getattr(data["x"], "labels", None)
    if weights is not None and labels is not None:  # Keras requires a weight for each class that occurs.
        count = labels.shape[1] if labels.ndim == 2 and labels.shape[1] > 1 else int(np.max(labels)) + 1
        options["class_weight"] = {**dict.fromkeys(range(count), 1.0), **weights}
    return fit_in_run(model.fit, data.pop("x"), options.pop("callbacks"), {**data, **options})


def _check_options(model, options):
    """Raises a `TypeError` if an option is not an argument of `fit`, before anything is frozen or compiled."""
    known = [*inspect.signature(keras.Model.fit).parameters, *inspect.signature(model.fit).parameters, "recipe"]
    fields = [field.name for field in dataclasses.fields(Recipe)]
    for name in options:
        if name not in known and (field := closest(name, [*fields, *known])) in fields:
            raise TypeError(
                f"`fine_tune` has no argument `{name}`. Set `{field}` in the recipe: `recipe=get_recipe(name, "
                f"{field}=...)`. Received: {name}={options[name]!r:.100}"
            )
    check_arguments("fine_tune", options, known)


def _length(data):
    """Returns the number of batches of an epoch, given the arguments of `fit` that are data."""
    x = data["x"]
    try:
        if "batch_size" in data:
            steps = -(-len(keras.tree.flatten(x)[0]) // data["batch_size"])
        else:
            lengths = [*map(len, x.values() if isinstance(x, dict) else [x])]  # A `MultiTask` has a dict of datasets.
            steps = sum(lengths) if all(lengths) else 0
    except TypeError as error:
        raise ValueError(
            "The learning rate schedule requires the number of batches per epoch. Pass `steps_per_epoch`. "
            f"Received: a {type(x).__name__} of unknown length"
        ) from error
    if steps == 0:
        raise ValueError("`x` must have at least one row. Received: no rows")
    return steps


def _data_of_fit(model, x, y, sample_weight, batch_size, options):
    """Returns the arguments of `fit` that are data."""
    if isinstance(model, MultiTask):
        rule = "The labels and weights of a `MultiTask` are in `x`, a dict from names to `(x, y)`."
        expect(y is None and sample_weight is None, rule, y=y, sample_weight=sample_weight)
        return {"x": model.dataset(x, batch_size=batch_size)}
    is_task = isinstance(model, Task)
    in_memory = y is not None or hasattr(x, "shape") or isinstance(x, (list, tuple, dict, str))
    in_memory = in_memory or (is_task and model.reader.accepts(x))  # A column of a table has neither type.
    rule = "Data in memory requires labels. Pass them as `y`: `fine_tune(model, x, y)`."
    if in_memory:
        expect(y is not None or (is_task and model.labels.optional), rule, x=x)
    if in_memory and is_task:
        shuffle = bool(options.get("shuffle", True))
        return {"x": model.dataset(x, y, sample_weight, batch_size=batch_size, shuffle=shuffle)}
    return {"x": x, "y": y, "sample_weight": sample_weight} | ({"batch_size": batch_size} if in_memory else {})
