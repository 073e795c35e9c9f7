"""Selecting layer groups by name, depth, regular expression or origin."""

import numbers
import re
from collections.abc import Sequence
from typing import Any

from keras_transfer.groups.groups import LayerGroup, layer_groups
from keras_transfer.names import did_you_mean, why_no_expression

NORM = re.compile(
    r"(?i)(norm(alization)?(?![a-z])[^/]*/(gamma|beta|scale|offset|weight|bias|moving_mean|moving_variance)|(^|/)(gamma|beta))"
    r"(:\d+)?$"
)
BIAS = re.compile(r"(?i)(^|/)([^/]*bias|b|beta)(:\d+)?$")


def selection_for_config(selection):
    """Returns a selection of layer groups in the form for a config, with sets and tuples converted to lists.

    Args:
        selection: Selection of layer groups, in any form that `select_groups` accepts.

    Returns:
        The selection.
    """
    return list(selection) if isinstance(selection, (set, tuple)) else selection


def select_groups(groups: Sequence[LayerGroup], selection: Any) -> list[LayerGroup]:
    """Returns the layer groups that match a selection, from the lowest up.

    Args:
        groups: List of layer groups that `layer_groups` returns.
        selection: `"all"`, `"pretrained"`, `"new"` (not pretrained), the name of a group, its depth as an integer
            (negative values count from the top), a regular expression that matches whole names (`"block_[01]"`), or a
            list of these.

    Returns:
        List of `LayerGroup`s.

    Raises:
        ValueError: If a part of the selection matches no group.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    groups = keras_transfer.adaptation.layer_groups(model)
    [low] = keras_transfer.adaptation.select_groups(groups, "low")
    ```
    """
    chosen, parts = set(), selection if isinstance(selection, (list, tuple, set)) else [selection]
    for part in parts or [selection]:
        found = _depths(groups, part)
        if not found:
            raise ValueError(_no_match(groups, part))
        chosen |= found
    return [group for group in groups if group.depth in chosen]


def _depths(groups, part):
    if isinstance(part, bool) or not isinstance(part, (str, numbers.Integral)):
        return set()
    if isinstance(part, numbers.Integral):
        return {groups[part].depth} if -len(groups) <= part < len(groups) else set()
    if part == "all":
        return {group.depth for group in groups}
    exact = {group.depth for group in groups if group.name == part}
    if exact:
        return exact
    if part in ("new", "pretrained"):
        return {group.depth for group in groups if group.pretrained == (part == "pretrained")}
    try:
        return {group.depth for group in groups if re.fullmatch(part, group.name)}
    except re.error:
        return set()


def _no_match(groups, part):
    names = [group.name for group in groups]
    return (
        "No layer group matches. Expected the name of a group, its depth, a regular expression that matches whole "
        f"names, 'new', 'pretrained' or 'all'. The groups are {names}.{did_you_mean(part, names)} Received: {part!r}"
        f"{why_no_expression(part)}"
    )


def depth_of(model: Any, group: Any) -> int:
    """Returns the depth of the single layer group that a selection matches.

    Args:
        model: Built model or layer.
        group: Selection of one layer group, such as its name or depth.

    Returns:
        Integer.
    """
    found = select_groups(layer_groups(model), group)
    if len(found) != 1:
        raise ValueError(f"Expected a single layer group. Received: {group!r}, which matches {[g.name for g in found]}")
    return found[0].depth


def is_norm(weight: Any) -> bool:
    """Returns whether the path of a weight shows that it belongs to a normalization layer.

    Returns:
        Boolean.
    """
    return bool(NORM.search(weight.path))


def is_norm_or_bias(weight: Any) -> bool:
    """Returns whether a weight is usually excluded from weight decay: a scale, a shift or a bias.

    Returns:
        Boolean.
    """
    return len(weight.shape) <= 1 or is_norm(weight) or bool(BIAS.search(weight.path))
