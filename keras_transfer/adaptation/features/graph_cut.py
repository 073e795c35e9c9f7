"""Cutting the graph of a task below a layer group, into a part that is computed once and a part that trains."""

import dataclasses
import hashlib
import json

import keras

from keras_transfer.encoders.base import Encoder
from keras_transfer.groups import depth_of, layer_groups
from keras_transfer.keras_internals import calls_of


@dataclasses.dataclass
class Cut:
    """Two parts of a task.

    Attributes:
        below: Name of the lowest layer group of the upper part.
        lower: Functional model from the task's inputs to a dict of the tensors that the upper part needs.
        inputs: Dict of symbolic inputs of the upper part: these tensors, and the inputs of the task that it also needs.
        outputs: Symbolic outputs of the upper part, which has the layers of the task.
        layers: List of the layers and operations of the lower part.
        places: List of integers. Positions of the calls that return these tensors, counted from the input of the task.
        encoder: The encoder of the task.
    """

    below: str
    lower: keras.Model
    inputs: dict
    outputs: object
    layers: list
    places: list
    encoder: keras.Model

    @property
    def names(self):
        """List of strings. Names of the tensors that the upper part takes from the lower part."""
        return list(self.lower.output)

    def fingerprint(self):
        """Returns a string that identifies the weights and settings of the lower part."""
        # The config of an encoder of this library describes its layers and names the active adapters.
        parts = [self.places, _settings(self.encoder.get_config()) if isinstance(self.encoder, Encoder) else None]
        inside = {id(layer) for layer in self.encoder.layers} if isinstance(self.encoder, Encoder) else set()
        for layer in self.layers:
            has_config = isinstance(layer, keras.layers.Layer) and id(layer) not in inside
            config = _settings(layer.get_config()) if has_config else None
            parts.append([type(layer).__name__, getattr(layer, "compute_dtype", None), config])
        described = json.dumps(parts, default=lambda value: type(value).__name__)
        digest = hashlib.blake2b(described.encode(), digest_size=16)
        for weight in self.lower.weights:
            digest.update(keras.ops.convert_to_numpy(weight).tobytes())
        return digest.hexdigest()


def _settings(config):
    """Returns a config without the settings that do not affect outputs: `trainable`, and names, which Keras numbers."""
    if isinstance(config, dict):
        return {name: _settings(value) for name, value in config.items() if name not in ("name", "trainable", "frozen")}
    return [_settings(value) for value in config] if isinstance(config, (list, tuple)) else config


def cut_below(task, below):
    """Cuts a task below a layer group.

    The lower part computes everything that depends on the weights below the cut and on none above it, as far up as
    possible. The upper part repeats operations that need only the inputs of the task, such as the attention bias of a
    mask, and operations that read only the shape of a tensor, such as relative positions. Dropout above the last layer
    of the lower part belongs to the upper part.

    Args:
        task: `Task`.
        below: Name or depth of a layer group.

    Returns:
        A `Cut`.

    Raises:
        ValueError: If there is no such group, if it is the lowest one, or if a layer has weights of both parts, so that
            nothing can be computed in the lower part.
    """
    groups, depth = layer_groups(task), depth_of(task, below)
    below = groups[depth].name
    if depth == 0:
        raise ValueError(f"No layer group is below {below!r}, the lowest one. Received: below={below!r}")
    calls = calls_of(task)
    low, high = ({id(w) for group in part for w in group.variables} for part in (groups[:depth], groups[depth:]))
    fixed = _fixed_tensors(calls, low, high)
    border, repeated, needed = _border(calls, task.outputs, fixed)
    if not border:
        both = [call.operation.name for call in calls if _has(call, low) and _has(call, high)]
        raise ValueError(
            f"Nothing below {below!r} can be computed separately, because layers have the weights of several layer "
            f"groups. Cut below the head instead. Received: below={below!r}, layers {both}"
        )
    names = task.input if isinstance(task.input, dict) else {tensor.name: tensor for tensor in task.inputs}
    of_lower = _ancestors(calls, border.values())
    inputs = {name: keras.Input(t.shape[1:], dtype=t.dtype, name=name) for name, t in border.items()}
    tensors = {id(tensor): inputs[name] for name, tensor in border.items()}
    for name, tensor in names.items():
        if id(tensor) in needed:
            inputs[name] = keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
            tensors[id(tensor)] = inputs[name]
    for call in repeated:
        shapes = {id(t): _of_shape(t, border, inputs) for t in call.inputs if id(t) not in tensors}
        outputs = call.repeat({**shapes, **tensors})
        tensors |= {id(old): new for old, new in zip(call.outputs, outputs)}
    outputs = keras.tree.map_structure(lambda tensor: tensors[id(tensor)], task.output)
    lower = keras.Model({name: t for name, t in names.items() if id(t) in of_lower}, border, name="lower_part")
    layers = [call.operation for call in calls if not of_lower.isdisjoint(map(id, call.outputs))]
    layers = list({id(layer): layer for layer in layers}.values())
    places = [[id(t) in map(id, call.outputs) for call in calls].index(True) for t in border.values()]
    return Cut(below, lower, inputs, outputs, layers, places, task.encoder)


def is_random(layer):
    """Returns whether a layer, or one inside it, draws random numbers, such as dropout."""
    return isinstance(layer, keras.layers.Layer) and len(layer.variables) > len(layer.weights)  # Seeds are not weights.


def _fixed_tensors(calls, low, high):
    """Returns the ids of the tensors to compute in the lower part, given the ids of its and of other weights."""

    def fixed_tensors(late):
        fixed, above = set(), set()
        for call in calls:
            outputs = {id(tensor) for tensor in call.outputs}
            if _has(call, high) or id(call) in late or any(id(tensor) in above for tensor in call.inputs):
                above |= outputs
            elif _reads_shape_only(call):
                continue
            elif _has(call, low) or any(id(tensor) in fixed for tensor in call.inputs):
                fixed |= outputs
        return fixed

    fixed, leads_on, late = fixed_tensors(set()), set(), set()
    for call in reversed(calls):
        if not fixed.isdisjoint(map(id, call.outputs)):
            if _has(call, low) or not leads_on.isdisjoint(map(id, call.outputs)):
                leads_on |= {id(tensor) for tensor in call.inputs}
            elif is_random(call.operation):
                late.add(id(call))
    return fixed_tensors(late)


def _border(calls, outputs, fixed):
    """Returns the tensors that the upper part takes, the calls that it repeats, and the ids of the tensors it needs.

    Returns:
        A dict from names to tensors, a list of `Call`s in order, and a set.
    """
    needed, border, repeated, shapes = {id(tensor) for tensor in outputs}, {}, [], []
    for call in reversed(calls):
        wanted = [(i, tensor) for i, tensor in enumerate(call.outputs) if id(tensor) in needed]
        if wanted and id(wanted[0][1]) in fixed:
            name = f"{call.operation.name}_output"
            for i, tensor in wanted:
                number = next(n for n in (i, *range(len(calls))) if (f"{name}_{n}" if n else name) not in border)
                border[f"{name}_{number}" if number else name] = tensor
        elif wanted:
            repeated.insert(0, call)
            by_shape = [t for t in call.inputs if _reads_shape_only(call) and id(t) in fixed]
            shapes += by_shape
            needed |= {id(tensor) for tensor in call.inputs} - {id(tensor) for tensor in by_shape}
    for i, tensor in enumerate(shapes):
        if border and all(tensor.shape != other.shape for other in border.values()):
            border[f"shape_{i}"] = tensor
    return border, repeated, needed


def _of_shape(tensor, border, inputs):
    """Returns the input of the upper part that replaces a tensor if only the shape of the tensor is read."""
    same = [name for name, other in border.items() if other is tensor or other.shape == tensor.shape]
    return inputs[same[0]]


def _ancestors(calls, tensors):
    """Returns the ids of tensors and of all tensors from which they are computed."""
    found = {id(tensor) for tensor in tensors}
    for call in reversed(calls):
        if not found.isdisjoint(map(id, call.outputs)):
            found |= {id(tensor) for tensor in call.inputs}
    return found


def _has(call, weights):
    """Returns whether a call's layer has one of these weights, given their ids."""
    return not weights.isdisjoint(map(id, getattr(call.operation, "weights", ())))


def _reads_shape_only(call):
    return getattr(call.operation, "reads_shape_only", False)
