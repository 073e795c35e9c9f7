"""Layer groups: the weights of a model as an ordered list of groups, from the input to the head."""

import dataclasses
import itertools
import math
import numbers
import re
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.core.names import did_you_mean, why_no_expression
from keras_transfer.encoders import backbone_groups, is_backbone
from keras_transfer.keras_internals import layers_within
from keras_transfer.layers import Adapter

NORM = re.compile(
    r"(?i)(norm(alization)?(?![a-z])[^/]*/(gamma|beta|scale|offset|weight|bias|moving_mean|moving_variance)|(^|/)(gamma|beta))"
    r"(:\d+)?$"
)

BIAS = re.compile(r"(?i)(^|/)([^/]*bias|b|beta)(:\d+)?$")


@dataclasses.dataclass
class LayerGroup:
    """Weights of a model that adaptation methods treat in the same way.

    Attributes:
        name: String. Unique within the model.
        kind: `"embeddings"`, `"block"`, `"pooler"`, `"adapters"`, `"head"` or `"other"`.
        variables: List of `keras.Variable`s.
        depth: Integer. Position of the group, counted from the input, starting at 0.
        pretrained: Boolean. `False` for layers that were added to a pretrained encoder.
        layers: List of Keras layers. Empty if the weights do not belong to Keras layers.
    """

    name: str
    kind: str
    variables: list
    depth: int
    pretrained: bool
    layers: list

    def __repr__(self):
        return f"LayerGroup({self.name!r}, {self.kind}, {len(self.variables)} weights, {self.parameters:,} parameters)"

    @property
    def parameters(self) -> int:
        """Integer. Number of parameters."""
        return sum(math.prod(variable.shape) for variable in self.variables)

    @property
    def trainable_parameters(self) -> int:
        """Integer. Number of trainable parameters."""
        return sum(math.prod(variable.shape) for variable in self.variables if variable.trainable)


class LayerGroups(list):
    """The list of `LayerGroup`s that `layer_groups` returns. It prints as a table."""

    def __repr__(self):
        rows = [("depth", "group", "kind", "pretrained", "parameters", "trainable")]
        for group in self:
            counts = f"{group.parameters:,}", f"{group.trainable_parameters:,}"
            rows.append((str(group.depth), group.name, group.kind, "yes" if group.pretrained else "no", *counts))
        total, trainable = sum(g.parameters for g in self), sum(g.trainable_parameters for g in self)
        rows.append(("", "total", "", "", f"{total:,}", f"{trainable:,}"))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        numbers = (0, 4, 5)
        lines = [
            "  ".join(cell.rjust(w) if i in numbers else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            for row in rows
        ]
        rule = "-" * len(lines[0])
        return "\n".join(line.rstrip() for line in [lines[0], rule, *lines[1:-1], rule, lines[-1]])


def layer_groups(model: Any, groups: Any = None) -> LayerGroups:
    """Returns a model's weights as an ordered partition, from the input through each block to the head.

    The encoders of this library and `hub.HubLayer` define their own groups. The groups of a KerasHub backbone follow
    its `transformer_layers`. An encoder inside another model (a task, a functional or nested model) keeps its groups,
    and everything else in that model is its head, which is not pretrained except in a `Seq2SeqLM`. In a model without
    an encoder, each layer with weights is a group, in topological order, and the last one is the head. A weight that
    two groups share belongs to the lower one. The adapters of a group form a group above it, such as
    `"block_0_adapters"`, which is not pretrained.

    Args:
        model: Built `keras.Model` or `keras.layers.Layer`.
        groups: List of `(name, regex)`, in order from the input, that groups the weights by `path`. A path starts with
            the layer's name. A weight belongs to the first group whose expression is found in its path. Weights that no
            expression matches keep their default groups, which come above the given ones. Defaults to `None`, the
            default groups.

    Returns:
        A `LayerGroups`, a list of `LayerGroup`s that prints as a table. Every weight of the model is in exactly one
        group. Seed and metric states are not weights.

    Raises:
        ValueError: If `model` is not a Keras layer, is not built or has no weights; if `groups` is not such a list; or
            if a regex matches no path.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    print(keras_transfer.adaptation.layer_groups(model))
    ```
    """
    expect(isinstance(model, keras.layers.Layer), "`model` must be a Keras model or layer.", model=model)
    if groups is not None:
        _check_groups(groups)
    expect(model.built and model.weights, "`model` must have weights. Build or call it first.", model=model)
    remaining = {id(weight): weight for weight in model.weights}
    found = LayerGroups()
    for name, kind, parts, pretrained in _raw_groups(model):
        weights, owners = [], []
        for part in parts:
            # A task may not use its encoder's pooler, and a tied weight may already be in an earlier group.
            is_layer = isinstance(part, keras.layers.Layer)
            candidates = part.weights if is_layer else [part]
            taken = [remaining.pop(id(weight)) for weight in candidates if id(weight) in remaining]
            weights += taken
            owners += [part] if taken and is_layer else []
        own, added = _split(weights, owners)
        adapters = [layer for layer, _ in added]
        if own:
            name = _unused(name, {group.name for group in found})
            found.append(LayerGroup(name, kind, own, len(found), pretrained, owners))
        if added:
            name = _unused(f"{name}_adapters", {group.name for group in found})
            weights = [weight for _, weights in added for weight in weights]
            found.append(LayerGroup(name, "adapters", weights, len(found), False, adapters))
    if remaining:  # A subclassed model can have weights outside its layers.
        name = _unused("other", {group.name for group in found})
        pretrained = found[-1].pretrained if found else True
        found.append(LayerGroup(name, "other", list(remaining.values()), len(found), pretrained, []))
    return found if groups is None else _regroup(found, groups)


def _split(weights, layers):
    """Returns the weights that do not belong to adapters, and `(adapter, weights)` for each adapter in the layers."""
    remaining, added = {id(weight): weight for weight in weights}, []
    for owner in layers:
        for layer in [layer for layer, _ in layers_within(owner) if isinstance(layer, Adapter)]:
            found = [remaining.pop(id(weight)) for weight in layer.weights if id(weight) in remaining]
            added += [(layer, found)] if found else []
    return list(remaining.values()), added


def _check_groups(groups):
    expected = "`groups` must be a list of `(name, regex)` with unique names"
    if not isinstance(groups, (list, tuple)) or not groups:
        raise ValueError(f"{expected}. Received: groups={groups!r:.100}")
    names = set()
    for pair in groups:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not is_pair or not all(isinstance(part, str) for part in pair) or not pair[0]:
            raise ValueError(f"{expected}. Received: {pair!r:.100}")
        if pair[0] in names:
            raise ValueError(f"{expected}. Received: two groups with the name {pair[0]!r}")
        names.add(pair[0])
        if reason := why_no_expression(pair[1]):
            raise ValueError(f"{expected}. Received: {pair!r}{reason}")


def _regroup(defaults, groups):
    """Returns the same weights in the user's groups, with the remaining weights above them."""
    rest = [(weight, group) for group in defaults for weight in group.variables]
    regrouped = LayerGroups()
    for name, pattern in groups:
        found = [pair for pair in rest if re.search(pattern, pair[0].path)]
        rule = "Each expression in `groups` must match a path that no earlier group has taken. Remaining paths:"
        expect(found, f"{rule} {[weight.path for weight, _ in rest]}.", group=(name, pattern))
        kinds, new = {group.kind for _, group in found}, any(not group.pretrained for _, group in found)
        kind = kinds.pop() if len(kinds) == 1 else "other"
        regrouped.append(LayerGroup(name, kind, [weight for weight, _ in found], len(regrouped), not new, []))
        rest = [pair for pair in rest if not any(pair[0] is weight for weight, _ in found)]
    remaining = {id(weight) for weight, _ in rest}
    for group in defaults:
        weights = [weight for weight in group.variables if id(weight) in remaining]
        if weights:
            name = _unused(group.name, {group.name for group in regrouped})
            layers = group.layers if len(weights) == len(group.variables) else []
            regrouped.append(LayerGroup(name, group.kind, weights, len(regrouped), group.pretrained, layers))
    return regrouped


def _raw_groups(model):
    """Returns `(name, kind, layers or weights, pretrained)` for each group. Shared weights may occur several times."""
    parts = list(_parts(model))
    encoders = [part for part in parts if isinstance(part, list)]
    layers = [part for part in parts if not isinstance(part, list)]
    if encoders:
        head = ("head", "head", layers, getattr(model, "head_is_pretrained", False))
        return [*((*group, True)[:4] for encoder in encoders for group in encoder), head]
    groups = []
    for layer in layers:
        if layer.weights:
            kind = "embeddings" if isinstance(layer, keras.layers.Embedding) else "other"
            groups.append((layer.name, kind, [layer], True))
    if len(groups) > 1:
        name, _, layers, _ = groups.pop()
        groups.append((name, "head", layers, False))
    return groups


def _parts(model):
    """Yields the parts of a model in topological order: the list of groups of an encoder, or a single layer.

    Nested models are expanded. A task tracks the layers of its encoder, but only refers to the encoder itself. The
    encoder therefore comes first. Its layers occur again later, when their weights are already assigned.
    """
    if own := _encoder_groups(model):
        yield own
        return
    encoder = getattr(model, "encoder", None) or getattr(model, "backbone", None)
    inside = _encoder_groups(encoder)
    if inside:
        yield inside
    for layer in getattr(model, "layers", None) or [model]:
        if layer is encoder and inside:
            continue
        if (isinstance(layer, keras.Model) or hasattr(layer, "layer_groups")) and layer is not model:
            yield from _parts(layer)
        else:
            yield layer
    yield from getattr(model, "further_heads", ())  # These layers are not in the graph of a task.


def _encoder_groups(model):
    """Returns the groups of an encoder in the form of `Encoder.layer_groups`, or `None` for other models."""
    if hasattr(model, "layer_groups"):
        return model.layer_groups()
    return backbone_groups(model) if is_backbone(model) else None


def _unused(name, taken):
    """Returns `name`, or the first of `name_1`, `name_2`, ... that is not taken."""
    numbered = (f"{name}_{i}" for i in itertools.count(1))
    return next(candidate for candidate in itertools.chain([name], numbered) if candidate not in taken)


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
    return depth_in(layer_groups(model), group)


def depth_in(groups, group):
    """Returns the depth of the single one of several layer groups that a selection matches."""
    found = select_groups(groups, group)
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
