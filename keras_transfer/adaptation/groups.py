"""The ladder: the weights of a model as an ordered list of groups, from the input to the head."""

import dataclasses
import itertools
import math
import re

import keras


@dataclasses.dataclass
class LayerGroup:
    """One rung of the ladder: weights that are treated alike.

    Attributes:
        name: str, unique in its ladder.
        kind: `"embeddings"`, `"block"`, `"pooler"`, `"head"` or `"other"`.
        variables: list of `keras.Variable`.
        depth: int, counted from the input, from 0.
        pretrained: bool, False for what was added to a pretrained encoder.
        layers: list of Keras layers; empty where the weights come from no Keras layer.
    """

    name: str
    kind: str
    variables: list
    depth: int
    pretrained: bool
    layers: list

    @property
    def parameters(self):
        """int, the number of weights."""
        return sum(math.prod(variable.shape) for variable in self.variables)

    @property
    def trainable_parameters(self):
        """int, the number of weights that train."""
        return sum(math.prod(variable.shape) for variable in self.variables if variable.trainable)


class Ladder(list):
    """The list that `layer_groups` returns; it prints as a table."""

    def __repr__(self):
        rows = [("depth", "group", "kind", "pretrained", "parameters", "trainable")]
        for group in self:
            rows.append(
                (
                    str(group.depth),
                    group.name,
                    group.kind,
                    "yes" if group.pretrained else "no",
                    f"{group.parameters:,}",
                    f"{group.trainable_parameters:,}",
                )
            )
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


def layer_groups(model, groups=None):
    """Returns a model's weights as an ordered partition, from the input side over each block to the head.

    Our encoders and `hub.HubLayer` say themselves what their groups are; KerasHub backbones are read by their
    `transformer_layers`. An encoder inside another model (a task, a functional or nested model) keeps its groups;
    everything else in that model is its head and counts as not pretrained. In a model without an encoder each layer
    with weights is a group of its own, in topological order, and the last one is the head. A weight that two groups
    use is in the lower one.

    Args:
        model: a built `keras.Model` or `keras.layers.Layer`.
        groups: list of `(name, regex)` in order from the input, to group the weights by their `path` instead, which
            starts with their layer's name: each is in the first group whose expression is found in its path; what is in
            none keeps the group it would have had, above these.

    Returns:
        A `Ladder`, a list of `LayerGroup`s that prints as a table. Every weight of the model is in exactly one; the
        states of seeds and metrics are no weights.

    Raises:
        ValueError: `model` is no Keras layer, is not built or has no weights; an expression is found in no path.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    print(keras_transfer.adaptation.layer_groups(model))
    ```
    """
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(f"`model` must be a Keras model or layer. Received: {type(model).__name__}")
    if not model.built or not model.weights:
        raise ValueError(f"`model` has no weights yet: call or build it first. Received: {model!r}")
    left = {id(weight): weight for weight in model.weights}
    ladder = Ladder()
    for name, kind, parts, pretrained in _rungs(model):
        weights, owners = [], []
        for part in parts:
            # An encoder's pooler may be no part of a task; a tied weight is taken by the first layer that has it.
            is_layer = isinstance(part, keras.layers.Layer)
            taken = [left.pop(id(weight)) for weight in (part.weights if is_layer else [part]) if id(weight) in left]
            weights += taken
            owners += [part] if taken and is_layer else []
        if weights:
            name = _unused(name, {group.name for group in ladder})
            ladder.append(LayerGroup(name, kind, weights, len(ladder), pretrained, owners))
    if left:  # what a subclassed model holds itself, outside its layers
        name = _unused("other", {group.name for group in ladder})
        pretrained = ladder[-1].pretrained if ladder else True
        ladder.append(LayerGroup(name, "other", list(left.values()), len(ladder), pretrained, []))
    return ladder if groups is None else _regrouped(ladder, groups)


def _regrouped(ladder, groups):
    """The same weights in groups of the user's own, and above them what these leave."""
    rest = [(weight, group) for group in ladder for weight in group.variables]
    regrouped = Ladder()
    for name, pattern in groups:
        found = [pair for pair in rest if re.search(pattern, pair[0].path)]
        if not found:
            raise ValueError(
                "each group's expression must be found in a path that no group before it took: "
                f"{[weight.path for weight, _ in rest]}. Received: {(name, pattern)!r}"
            )
        kinds, new = {group.kind for _, group in found}, any(not group.pretrained for _, group in found)
        kind = kinds.pop() if len(kinds) == 1 else "other"
        regrouped.append(LayerGroup(name, kind, [weight for weight, _ in found], len(regrouped), not new, []))
        rest = [pair for pair in rest if not any(pair[0] is weight for weight, _ in found)]
    left = {id(weight) for weight, _ in rest}
    for group in ladder:
        weights = [weight for weight in group.variables if id(weight) in left]
        if weights:
            name = _unused(group.name, {group.name for group in regrouped})
            layers = group.layers if len(weights) == len(group.variables) else []
            regrouped.append(LayerGroup(name, group.kind, weights, len(regrouped), group.pretrained, layers))
    return regrouped


def _rungs(model):
    """`(name, kind, layers or weights, pretrained)` for each group, before shared weights are told apart."""
    parts = list(_parts(model))
    encoders = [part for part in parts if isinstance(part, list)]
    layers = [part for part in parts if not isinstance(part, list)]
    if encoders:
        return [(*rung, True) for encoder in encoders for rung in encoder] + [("head", "head", layers, False)]
    rungs = []
    for layer in layers:
        if layer.weights:
            kind = "embeddings" if isinstance(layer, keras.layers.Embedding) else "other"
            rungs.append((layer.name, kind, [layer], True))
    if len(rungs) > 1:
        name, _, layers, _ = rungs.pop()
        rungs.append((name, "head", layers, False))
    return rungs


def _parts(model):
    """What a model is made of, in topological order: an encoder as the list of its rungs, else single layers.

    Models inside it are opened. A task's encoder is only a reference of it (the task has the layers): it comes
    first, and its layers, which come again, find their weights taken.
    """
    if own := _encoder_rungs(model):
        yield own
        return
    encoder = getattr(model, "encoder", None) or getattr(model, "backbone", None)
    inside = _encoder_rungs(encoder)
    if inside:
        yield inside
    for layer in getattr(model, "layers", None) or [model]:
        if layer is encoder and inside:
            continue
        if (isinstance(layer, keras.Model) or hasattr(layer, "layer_groups")) and layer is not model:
            yield from _parts(layer)
        else:
            yield layer


def _encoder_rungs(model):
    """`(name, kind, layers or weights)` of an encoder whose inside is known, or None."""
    if hasattr(model, "layer_groups"):
        return model.layer_groups()
    # Without importing KerasHub: a backbone can only exist where its user did.
    if any(cls.__name__ == "Backbone" and cls.__module__.startswith("keras_hub.") for cls in type(model).__mro__):
        return _keras_hub_rungs(model)
    return None


def _keras_hub_rungs(backbone):
    """Embeddings up to the first block, each block, and what follows: read off the backbone's layers in order."""
    names = ("transformer_layers", "encoder_transformer_layers", "decoder_transformer_layers")
    # ALBERT's are lists of layers.
    blocks = {id(layer) for name in names for layer in keras.tree.flatten(getattr(backbone, name, None) or [])}
    rungs, embeddings = [], []
    for layer in backbone.layers:
        if not layer.weights:
            continue
        if id(layer) in blocks or (not blocks and re.search(r"(layer|block)_\d+$", layer.name)):
            rungs.append((layer.name, "block", [layer]))
        elif not rungs or "embed" in layer.name:
            embeddings.append(layer)
        else:
            rungs.append((layer.name, "pooler" if "pool" in layer.name else "other", [layer]))
    return [("embeddings", "embeddings", embeddings), *rungs]


def _unused(name, taken):
    """`name`, or `name_1`, `name_2`, ... where it is taken."""
    numbered = (f"{name}_{i}" for i in itertools.count(1))
    return next(candidate for candidate in itertools.chain([name], numbered) if candidate not in taken)
