"""Freezing and thawing groups of the ladder before training."""

import re

import keras

from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.selection import depth_of, is_norm, select_groups
from keras_transfer.training import private, steps
from keras_transfer.training.trainable import could_train, remember_trainable, set_trainable


def freeze(model, groups=None, *, below=None, paths=None, norms=True):
    """Freezes groups of the ladder; everything else stays as it is.

    Args:
        model: a built model or layer: the one that is compiled, if one is.
        groups: what `select_groups` takes: a name, a depth, a regular expression, `"new"`, `"all"`, or a list of them.
            With neither `groups` nor `below` nor `paths` all.
        below: name or depth of a group: those below it are frozen.
        paths: regular expression found in the paths of single weights (`"embedding"`), within the groups.
        norms: bool, False to leave the scales and shifts of normalisation layers as they are.

    Returns:
        The model. If it is compiled, its next step trains what is left, also in the middle of `fit`; the optimizer
        keeps what it knows of the others. (A part of a compiled model knows nothing of that: pass the whole.)

    Raises:
        ValueError: something names no group or no weight.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze(model, below="top")
    ```
    """
    chosen = _weights(model, groups, below, paths, norms)
    return _apply(model, [weight for weight in model.trainable_weights if id(weight) not in chosen])


def freeze_to(model, group, *, norms=True):
    """Freezes every group below one, and thaws it and all above, as fastai's `freeze_to`.

    Args:
        model: as for `freeze`.
        group: name or depth of the lowest group that trains; -1 is the head.
        norms: bool, False to leave the normalisation layers of the groups below as they are.

    Returns:
        The model.

    Raises:
        ValueError: it names no group, or several; as for `unfreeze`.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze_to(model, -1)
    ```
    """
    depth = depth_of(model, group)
    above = {id(w) for g in layer_groups(model) if g.depth >= depth for w in g.variables}
    kept = set() if norms else {id(weight) for weight in model.trainable_weights if is_norm(weight)}
    return _apply(model, [weight for weight in could_train(model) if id(weight) in above | kept])


def unfreeze(model, groups=None, *, paths=None, norms=True):
    """Thaws groups of the ladder; everything else stays as it is.

    Args:
        model: as for `freeze`.
        groups: as for `freeze`; None for all.
        paths: as for `freeze` (`"bias$"` thaws what BitFit trains).
        norms: bool, False to leave normalisation layers as they are.

    Returns:
        The model. What no method trains (the statistics of batch normalisation) stays as it is.

    Raises:
        ValueError: something names no group or no weight; the model's optimizer was built without these weights.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.freeze(model)
    keras_transfer.adaptation.unfreeze(model, "top")
    ```
    """
    chosen = _weights(model, groups, None, paths, norms) | {id(weight) for weight in model.trainable_weights}
    return _apply(model, [weight for weight in could_train(model) if id(weight) in chosen])


def trainable_summary(model, groups=None):
    """Prints the groups of the ladder, their weights, and how many of them train.

    Args:
        model: a built model or layer.
        groups: as for `layer_groups`.

    Returns:
        The `Ladder` that was printed.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    keras_transfer.adaptation.trainable_summary(keras_transfer.adaptation.freeze(model, "low"))
    ```
    """
    ladder = layer_groups(model, groups)
    total, trainable = sum(g.parameters for g in ladder), sum(g.trainable_parameters for g in ladder)
    print(f"{ladder}\n{trainable:,} of {total:,} weights train ({trainable / total:.2%})")
    return ladder


def _weights(model, groups, below, paths, norms):
    """The ids of the weights that the arguments name."""
    ladder = layer_groups(model)
    if below is not None:
        if groups is not None:
            raise ValueError(f"`groups` and `below` say the same thing. Received: groups={groups!r}, below={below!r}")
        depth = depth_of(model, below)
        if depth == 0:
            raise ValueError(f"nothing is below the lowest group, {ladder[0].name!r}. Received: below={below!r}")
        chosen = ladder[:depth]
    else:
        chosen = select_groups(ladder, "all" if groups is None else groups)
    weights = [weight for group in chosen for weight in group.variables if norms or not is_norm(weight)]
    if paths is not None:
        try:
            found = [weight for weight in weights if re.search(paths, weight.path)]
        except (re.error, TypeError):
            found = []
        if not found:
            raise ValueError(
                "`paths` must be a regular expression that is found in the path of a weight: "
                f"{[weight.path for weight in weights]}. Received: {paths!r}"
            )
        weights = found
    return {id(weight) for weight in weights}


def _apply(model, trainable):
    """Makes exactly these trainable, in a compiled model too."""
    compiled = isinstance(model, keras.Model) and getattr(model, "optimizer", None) is not None
    if compiled:
        steps.sync(model)  # by the division into trainable and other weights that was
    before, restore = {id(weight) for weight in model.trainable_weights}, remember_trainable(model)
    set_trainable(model, trainable)
    if compiled and model.optimizer.built:
        try:
            selected = private.selection(model.optimizer, model.trainable_variables)
        except ValueError:
            restore()
            raise
        private.update(selected)
        private.start_averages(model.optimizer, [w for w in model.trainable_variables if id(w) not in before])
    if compiled:
        private.forget_jax_state(model)  # whose division is that of before
        model.test_function = model.predict_function = None
        steps.retrace(model)
    return model
