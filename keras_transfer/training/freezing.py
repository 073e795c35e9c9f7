"""Freezing and unfreezing layer groups before training."""

import re
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.core.names import did_you_mean, listed, why_no_expression
from keras_transfer.keras_internals import could_train, optimizers, remember_trainable, set_trainable, trainer
from keras_transfer.training.groups import depth_of, is_norm, layer_groups, select_groups
from keras_transfer.training.progress import sync


def freeze(
    model: Any, groups: Any = None, *, below: str | int | None = None, paths: str | None = None, norms: bool = True
) -> Any:
    """Freezes layer groups and leaves all others unchanged.

    Args:
        model: Built model or layer. Pass the compiled model, not one of its layers.
        groups: String, integer or list. The layer groups to freeze, in any form that `select_groups` accepts. Defaults
            to `None`, for all groups, or the ones that `below` selects.
        below: String or integer. Name or depth of a group. All groups below it are frozen. Defaults to `None`.
        paths: String. Regular expression, such as `"embedding"`. Within the groups, only weights whose path contains a
            match are frozen. Defaults to `None`, for all weights of the groups.
        norms: Boolean. Whether to freeze normalization layers, too. Defaults to `True`.

    Returns:
        The model. From its next step on, a compiled model trains only the remaining weights, even during `fit()`. Its
        optimizer keeps the slots of the frozen weights.

    Raises:
        ValueError: If `groups`, `below` or `paths` matches nothing.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze(model, below="top")
    ```
    """
    chosen = _weights(model, groups, below, paths, norms)
    return _apply(model, [weight for weight in model.trainable_weights if id(weight) not in chosen])


def freeze_to(model: Any, below: str | int, *, norms: bool = True) -> Any:
    """Unfreezes a layer group and all groups above it, and freezes all groups below it, like fastai's `freeze_to`.

    Args:
        model: Built model or layer. Pass the compiled model, not one of its layers.
        below: String or integer. Name or depth of the lowest layer group to train. `-1` is the head.
        norms: Boolean. Whether to freeze the normalization layers of the groups below, too. Defaults to `True`.

    Returns:
        The model.

    Raises:
        ValueError: If `below` does not match exactly one layer group, or if the model's optimizer was built without the
            weights to unfreeze.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze_to(model, -1)
    ```
    """
    depth = depth_of(model, below)
    above = {id(w) for g in layer_groups(model) if g.depth >= depth for w in g.variables}
    kept = set() if norms else {id(weight) for weight in model.trainable_weights if is_norm(weight)}
    return _apply(model, [weight for weight in could_train(model) if id(weight) in above | kept])


def unfreeze(model: Any, groups: Any = None, *, paths: str | None = None, norms: bool = True) -> Any:
    """Unfreezes layer groups and leaves all others unchanged.

    Args:
        model: Built model or layer. Pass the compiled model, not one of its layers.
        groups: String, integer or list. The layer groups to unfreeze, in any form that `select_groups` accepts.
            Defaults to `None`, for all groups.
        paths: String. Regular expression. Within the groups, only weights whose path contains a match are unfrozen.
            `"bias$"` unfreezes the weights that BitFit trains. Defaults to `None`, for all weights of the groups.
        norms: Boolean. Whether to unfreeze normalization layers, too. Defaults to `True`.

    Returns:
        The model. Weights that are never trainable, such as batch normalization statistics, remain unchanged.

    Raises:
        ValueError: If `groups` or `paths` matches nothing, or if the model's optimizer was built without these weights.
            Compile the model with a new optimizer first, because the old one cannot train them.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze(model)
    keras_transfer.adaptation.unfreeze(model, "top")
    ```
    """
    chosen = _weights(model, groups, None, paths, norms) | {id(weight) for weight in model.trainable_weights}
    return _apply(model, [weight for weight in could_train(model) if id(weight) in chosen])


def trainable_summary(model: keras.layers.Layer, groups: Any = None) -> None:
    """Prints the layer groups of a model with their numbers of parameters and trainable parameters.

    It returns nothing, as `model.summary()`. `layer_groups` returns the groups.

    Args:
        model: Built model or layer.
        groups: List of `(name, regex)` that groups the weights by path, as for `layer_groups`. Defaults to `None`, the
            default groups.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.trainable_summary(keras_transfer.adaptation.freeze(model, "low"))
    ```
    """
    groups = layer_groups(model, groups)
    total, trainable = sum(g.parameters for g in groups), sum(g.trainable_parameters for g in groups)
    fraction = "less than 0.01%" if 0 < trainable / total < 0.00005 else f"{trainable / total:.2%}"
    print(f"{groups}\n{trainable:,} of {total:,} parameters are trainable ({fraction})")


def _weights(model, groups, below, paths, norms):
    """Returns the ids of the weights that the arguments select."""
    all_groups = layer_groups(model)
    if below is not None:
        expect(groups is None, "Pass either `groups` or `below`.", groups=groups, below=below)
        depth = depth_of(model, below)
        lowest, *higher = (group.name for group in all_groups)
        expect(depth > 0, f"No layer group is below {lowest!r}. The groups above it are {higher}.", below=below)
        chosen = all_groups[:depth]
    else:
        chosen = select_groups(all_groups, "all" if groups is None else groups)
    weights = [weight for group in chosen for weight in group.variables if norms or not is_norm(weight)]
    if paths is not None:
        try:
            found = [weight for weight in weights if re.search(paths, weight.path)]
        except (re.error, TypeError):
            found = []
        if not found:
            known = [weight.path for weight in weights]
            raise ValueError(
                "`paths` must be a regular expression that matches a part of a weight's path."
                f"{did_you_mean(paths, known)} The paths are {listed(known)}. Received: paths={paths!r}"
                f"{why_no_expression(paths)}"
            )
        weights = found
    return {id(weight) for weight in weights}


def _apply(model, trainable):
    """Makes exactly these weights trainable, even in a compiled model."""
    compiled = isinstance(model, keras.Model) and getattr(model, "optimizer", None) is not None
    if compiled:
        sync(model)  # Keras on JAX has divided its state by the old flags.
    before, restore = {id(weight) for weight in model.trainable_weights}, remember_trainable(model)
    set_trainable(model, trainable)
    if compiled and model.optimizer.built:
        try:
            selected = optimizers.selection(model.optimizer, model.trainable_variables)
        except ValueError:
            restore()
            raise
        optimizers.update(selected)
        optimizers.start_averages(model.optimizer, [w for w in model.trainable_variables if id(w) not in before])
    if compiled:
        trainer.forget_jax_state(model)  # This state is divided by the old flags.
        model.test_function = model.predict_function = None
        if model.train_function is not None:
            model.make_train_function(force=True)
    return model
