"""The ladder: the weights of a model as an ordered list of groups, from the input to the head."""

import dataclasses
import re

import keras

KINDS = ("embeddings", "block", "pooler", "head", "other")


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
        return sum(_size(variable) for variable in self.variables)

    @property
    def trainable_parameters(self):
        """int, the number of weights that train."""
        return sum(_size(variable) for variable in self.variables if variable.trainable)


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


def layer_groups(model):
    """Returns a model's weights as an ordered partition, from the input side over each block to the head.

    Our encoders and tasks say themselves what their groups are; KerasHub backbones and tasks are read by their
    `transformer_layers`; in any other model each layer with weights is a group of its own, in topological order,
    and the last one is the head. An encoder inside another model keeps its groups; what was put on top of it is the
    head and counts as not pretrained. A weight that two groups use is in the lower one.

    Args:
        model: a built `keras.Model` or `keras.layers.Layer`.

    Returns:
        A `Ladder`, a list of `LayerGroup`s that prints as a table. Every weight of the model is in exactly one.

    Raises:
        ValueError: the model is not built or has no weights.

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
    ladder, names = Ladder(), {}
    for name, kind, layers, pretrained in _rungs(model):
        # An encoder's pooler may be no part of a task; a tied weight is taken by the first that has it.
        weights = [left.pop(id(weight)) for layer in layers for weight in layer.weights if id(weight) in left]
        if not weights:
            continue
        names[name] = names.get(name, 0) + 1
        name = name if names[name] == 1 else f"{name}_{names[name] - 1}"
        ladder.append(LayerGroup(name, kind, weights, len(ladder), pretrained, list(layers)))
    if left:
        ladder.append(LayerGroup("other", "other", list(left.values()), len(ladder), True, []))
    return ladder


def _rungs(model):
    """`(name, kind, layers, pretrained)` for each group of any model, before shared weights are told apart."""
    own = _encoder_rungs(model)
    if own:
        return [(*rung, True) for rung in own]
    # A task: built flat over an encoder it keeps a reference to, or with one as a layer.
    encoder = getattr(model, "encoder", None) or getattr(model, "backbone", None)
    below = _encoder_rungs(encoder) if isinstance(encoder, keras.Model) else None
    if below:
        inside = {id(layer) for layer in (encoder, *_leaves(encoder))}
        head = [layer for layer in _leaves(model, stop=encoder) if id(layer) not in inside]
        return [(*rung, True) for rung in below] + [("head", "head", head, False)]
    return _rungs_in_order(model)


def _rungs_in_order(model):
    """The default: each layer with weights a group; after an encoder among them, the rest is the head."""
    rungs, head = [], []
    for layer in _leaves(model):
        if below := _encoder_rungs(layer):
            rungs += [(*rung, True) for rung in below]
            head = [("head", "head", [], False)]
        elif head:
            head[0][2].append(layer)
        elif layer.weights:
            kind = "embeddings" if isinstance(layer, keras.layers.Embedding) else "other"
            rungs.append((layer.name, kind, [layer], True))
    if not head and len(rungs) > 1:
        name, _, layers, _ = rungs.pop()
        head = [(name, "head", layers, False)]
    return rungs + head


def _encoder_rungs(model):
    """`(name, kind, layers)` of an encoder whose inside is known, or None."""
    if hasattr(model, "ladder"):
        return model.ladder()
    if _is_keras_hub_backbone(model):
        return _keras_hub_rungs(model)
    return None


def _is_keras_hub_backbone(model):
    # Without importing KerasHub: a backbone can only exist where its user did.
    return any(cls.__name__ == "Backbone" and cls.__module__.startswith("keras_hub.") for cls in type(model).__mro__)


def _keras_hub_rungs(backbone):
    """Embeddings up to the first block, each block, and what follows: read off the backbone's layers in order."""
    names = ("transformer_layers", "encoder_transformer_layers", "decoder_transformer_layers")
    blocks = {id(layer) for name in names for layer in getattr(backbone, name, None) or ()}
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


def _leaves(model, stop=None):
    """The layers of a model in topological order, models inside it opened, but not encoders."""
    for layer in getattr(model, "layers", None) or [model]:
        if layer is stop:
            continue
        opens = isinstance(layer, keras.Model) and layer is not model and not _encoder_rungs(layer)
        if opens:
            yield from _leaves(layer, stop)
        else:
            yield layer


def _size(variable):
    size = 1
    for axis in variable.shape:
        size *= axis
    return size
