"""Naming groups of the ladder: by name, index, regular expression, or what they are."""

import difflib
import re

from keras_transfer.adaptation.groups import layer_groups

NORM = re.compile(
    r"(?i)(norm(alization)?(?![a-z])[^/]*/(gamma|beta|scale|offset|weight|bias|moving_mean|moving_variance)|(^|/)(gamma|beta))"
    r"(:\d+)?$"
)
BIAS = re.compile(r"(?i)(^|/)([^/]*bias|b|beta)(:\d+)?$")


def select_groups(ladder, groups):
    """Returns the groups of a ladder that `groups` names, in the ladder's order.

    Args:
        ladder: what `layer_groups` returns.
        groups: `"all"`; `"pretrained"` or `"new"` for those that are or are not; a group's name; its depth as an int,
            negative from the top; a regular expression that matches whole names (`"block_[01]"`); or a list of these.

    Returns:
        list of `LayerGroup`.

    Raises:
        ValueError: something names no group.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    ladder = keras_transfer.adaptation.layer_groups(model)
    [low] = keras_transfer.adaptation.select_groups(ladder, "low")
    ```
    """
    chosen, parts = set(), groups if isinstance(groups, (list, tuple, set)) else [groups]
    for part in parts or [groups]:
        found = _depths(ladder, part)
        if not found:
            raise ValueError(_nothing(ladder, part))
        chosen |= found
    return [group for group in ladder if group.depth in chosen]


def _depths(ladder, part):
    if isinstance(part, bool) or not isinstance(part, (str, int)):
        return set()
    if isinstance(part, int):
        return {ladder[part].depth} if -len(ladder) <= part < len(ladder) else set()
    if part == "all":
        return {group.depth for group in ladder}
    exact = {group.depth for group in ladder if group.name == part}
    if exact:
        return exact
    if part in ("new", "pretrained"):
        return {group.depth for group in ladder if group.pretrained == (part == "pretrained")}
    try:
        return {group.depth for group in ladder if re.fullmatch(part, group.name)}
    except re.error:
        return set()


def _nothing(ladder, part):
    names = [group.name for group in ladder]
    close = difflib.get_close_matches(str(part), names, n=1)
    nearest = f" (nearest: {close[0]!r})" if close else ""
    return (
        "a group is given as its name, its depth, a regular expression that matches whole names, 'new', 'pretrained' "
        f"or 'all'. There are {names}{nearest}. Received: {part!r}, which is none of them"
    )


def depth_of(model, group):
    """The depth of the one group that `group`, a name or depth, stands for."""
    found = select_groups(layer_groups(model), group)
    if len(found) != 1:
        raise ValueError(f"one group is wanted. Received: {group!r}, which are {[g.name for g in found]}")
    return found[0].depth


def is_norm(weight):
    """Returns whether a weight, by its path, belongs to a normalisation layer.

    Args:
        weight: a `keras.Variable`.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.LayerNormalization(), keras.layers.Dense(2)])
    norms = [weight.path for weight in model.weights if keras_transfer.adaptation.is_norm(weight)]
    ```
    """
    return bool(NORM.search(weight.path))


def is_norm_or_bias(weight):
    """Returns whether a weight is one of those that weight decay leaves alone: scales, shifts and biases.

    Args:
        weight: a `keras.Variable`.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.LayerNormalization(), keras.layers.Dense(2)])
    decay = [weight.path for weight in model.weights if not keras_transfer.adaptation.is_norm_or_bias(weight)]
    ```
    """
    return len(weight.shape) <= 1 or is_norm(weight) or bool(BIAS.search(weight.path))
