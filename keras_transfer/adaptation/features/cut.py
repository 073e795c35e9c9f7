"""Cutting a task at the boundary of a block or at its head, into layers that run once and layers that train."""

import dataclasses
import hashlib
import json

import keras

from keras_transfer.encoders.base import MASKS, Encoder, TransformerStack, encode
from keras_transfer.groups import depth_of, layer_groups


@dataclasses.dataclass
class Cut:
    """The lower and the upper layers of a task.

    Attributes:
        below: Name of the lowest upper layer group.
        lower: Functional model from the encoder's inputs to a dict of the tensors that the upper layers need.
        inputs: Dict of symbolic inputs of the upper layers: these tensors, and inputs of the task.
        outputs: Symbolic outputs of the upper layers, which belong to the task.
        encoder: The encoder of the task.
    """

    below: str
    lower: keras.Model
    inputs: dict
    outputs: object
    encoder: keras.Model

    @property
    def names(self):
        """List of strings. Names of the tensors that pass from the lower to the upper layers."""
        return list(self.lower.output)

    def fingerprint(self):
        """Returns a string that identifies the weights and settings of the lower layers."""
        # The config of an encoder of this library describes its layers and names the active adapters.
        ours = isinstance(self.encoder, Encoder)
        parts = [self.names, _settings(self.encoder.get_config()) if ours else None]
        for operation in self.lower.operations:
            has_config = isinstance(operation, keras.layers.Layer) and not ours
            config = _settings(operation.get_config()) if has_config else None
            parts.append([type(operation).__name__, getattr(operation, "compute_dtype", None), config])
        described = json.dumps(parts, default=lambda value: type(value).__name__)
        digest = hashlib.blake2b(described.encode(), digest_size=16)
        for weight in self.lower.weights:
            digest.update(keras.ops.convert_to_numpy(weight).tobytes())
        return digest.hexdigest()


def _settings(config):
    """Returns a config without settings that do not affect outputs: `trainable`, and names, which Keras numbers."""
    if isinstance(config, dict):
        left_out = ("name", "trainable", "frozen", "adapter_layout")
        return {name: _settings(value) for name, value in config.items() if name not in left_out}
    return [_settings(value) for value in config] if isinstance(config, (list, tuple)) else config


def cut_below(task, below):
    """Cuts a task below a block, below the layers that follow the blocks, or below the head.

    Args:
        task: `Task`.
        below: Name or depth of the lowest layer group of the upper part.

    Returns:
        A `Cut`.
    """
    groups, depth, encoder = layer_groups(task), depth_of(task, below), task.encoder
    below, kind = groups[depth].name, groups[depth].kind
    if depth == 0:
        raise ValueError(f"No layer group is below {below!r}, the lowest one. Received: below={below!r}")
    if kind not in ("block", "pooler", "other", "head"):
        raise ValueError(_cannot(encoder, groups, depth))
    lower, upper = read, head = _head_of(task, encoder)
    try:
        if kind != "head":
            lower, upper = _at_block(task, encoder, groups, depth, read, head)
        inputs = {
            name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
            for name, tensor in {**lower, **_inputs_above(task, encoder)}.items()
        }
        outputs = upper(inputs)
    except ValueError as error:
        raise ValueError(_cannot(encoder, groups, depth)) from error
    return Cut(below, keras.Model(encoder.input, lower, name="lower_part"), inputs, outputs, encoder)


def _head_of(task, encoder):
    """Returns the encoder outputs that the head uses, by name, and a function from such a dict to outputs."""
    if task.scalar_mix is not None:
        tensors = _hidden_states(task, encoder)
    else:
        encoded = encode(encoder)
        pooled = encoder.pooled_alone() if _reads_only_pooled(task, encoder) else encoded.pooled
        tensors = {"pooled_output": pooled, "sequence_output": encoded.sequence}
        tensors = {name: tensor for name, tensor in tensors.items() if name in task.reads and tensor is not None}
    try:
        return tensors, _function(task, encoder, tensors)
    except ValueError as error:
        raise ValueError(
            f"The head of the task must use only the encoder's outputs, {list(tensors)}, and masks. "
            f"Received: model={task.name!r}"
        ) from error


def _at_block(task, encoder, groups, depth, read, head):
    """Returns the tensors at the boundary of a block by name, and a function from such a dict to outputs."""
    states, below = _hidden_states(task, encoder), sum(group.kind == "block" for group in groups[:depth])
    number = below if any(group.kind == "block" for group in groups[depth:]) else len(states) - 1
    names = list(states)[: number + 1]
    lower = {name: states[name] for name in (names if task.scalar_mix is not None else names[-1:])}
    if not isinstance(encoder, TransformerStack):
        return lower, _function(task, encoder, lower)

    def upper(inputs):
        options = {"start": number, "first_only": _reads_only_pooled(task, encoder)}
        masks = {name: inputs[name] for name in MASKS if name in inputs}
        outputs, later = encoder.run_blocks(inputs[names[-1]], **masks, **options)
        found = {**dict(zip(list(states)[number:], later)), **outputs, **inputs}
        return head({name: found[name] for name in {**read, **_inputs_above(task, encoder)}})

    return lower, upper


def _reads_only_pooled(task, encoder):
    """Returns whether the head uses only `pooled_output`, for which the last block has to compute a single token."""
    return isinstance(encoder, TransformerStack) and task.reads == ("pooled_output",) and task.scalar_mix is None


def _function(task, encoder, tensors):
    """Returns a function that applies the layers above some tensors of a task to a dict of other tensors."""
    tensors = {**tensors, **_inputs_above(task, encoder)}
    part = keras.Model(list(tensors.values()), task.output)
    return lambda inputs: part.call([inputs[name] for name in tensors])


def _inputs_above(task, encoder):
    """Returns the inputs of a task that are not embedded, by name: masks, and inputs of its head."""
    own = encoder.input if isinstance(encoder.input, dict) else {tensor.name: tensor for tensor in encoder.inputs}
    inputs = {tensor.name: tensor for tensor in task.inputs}
    return {name: tensor for name, tensor in inputs.items() if name in MASKS or name not in own}


def _hidden_states(task, encoder):
    """Returns the hidden states of an encoder by name: `"embeddings_output"`, then one for each block."""
    blocks = [group.name for group in layer_groups(task) if group.kind == "block"]
    states = encode(encoder, hidden_states=True).hidden_states
    names = blocks if len(blocks) == len(states) - 1 else [f"layer_{i}" for i in range(len(states) - 1)]
    return dict(zip([f"{name}_output" for name in ("embeddings", *names)], states))


def _cannot(encoder, groups, depth):
    """Returns the error message for a layer group at which a task cannot be cut."""
    refused = groups[depth]
    places = [group.name for group in groups[1:] if group.kind in ("block", "head") and group.kind != refused.kind]
    return (
        f"A `{type(encoder).__name__}` cannot be cut below {refused.name!r}. Cut below one of {places} instead. "
        f"Received: below={refused.name!r}"
    )
