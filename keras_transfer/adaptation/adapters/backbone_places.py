"""Where adapters go in KerasHub's blocks. The layers of a block are found by their names."""

import math

import keras

from keras_transfer.encoders.keras_hub import is_keras_hub
from keras_transfer.keras_internals import layers_within
from keras_transfer.layers.adapters import AdapterSlot, dense_axes

# Maps our names to KerasHub's. Its sub-layers end with dropout, before the residual connection.
OUTPUTS = {"attention": "self_attention_dropout", "feed_forward": "feedforward_dropout"}
NORMS = {"attention_norm": "self_attention_layer_norm", "feed_forward_norm": "feedforward_layer_norm"}
# Maps KerasHub's names to ours.
DENSE = {
    "attention_output": "output",
    "feedforward_intermediate_dense": "inner",
    "feedforward_gate_dense": "gate",
    "feedforward_output_dense": "outer",
    # Gemma
    "ffw_gating": "gate",
    "ffw_gating_2": "inner",
    "ffw_linear": "outer",
    # Bloom and Falcon
    "query_dense": "query",
    "key_dense": "key",
    "value_dense": "value",
    "output_dense": "output",
    "mlp_intermediate_dense": "inner",
    "mlp_output_dense": "outer",
    "dense_h_to_4h": "inner",
    "dense_4h_to_h": "outer",
    # FNet
    "intermediate_dense": "inner",
    # ESM and RoFormer v2
    "q_dense_layer": "query",
    "k_dense_layer": "key",
    "v_dense_layer": "value",
    "o_dense_layer": "output",
    # SmolLM3
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "o_proj": "output",
    "gate_proj": "gate",
    "up_proj": "inner",
    "down_proj": "outer",
}


def output_of(block, sublayer):
    """Returns `(parent, attribute)` of the layer that returns the outputs of a sub-layer of a block.

    Raises:
        ValueError: If the block is not a `TransformerEncoder` or `TransformerDecoder` of KerasHub.
    """
    return _parts(block)[OUTPUTS[sublayer]]


def norms_of(block):
    """Returns the norms of a block by our names."""
    parts = _parts(block)
    return {name: getattr(*parts[theirs]) for name, theirs in NORMS.items()}


def dense_targets(block):
    """Returns the dense layers of a block by their names, as tuples of parent, attribute and part of the outputs.

    Layers that our blocks also have get our names (`"output"`, `"inner"`, `"gate"`, `"outer"`).
    """
    found = {}
    for name, (parent, attribute) in _inside(block).items():
        layer = getattr(parent, attribute)
        layer = getattr(layer, "base", layer)
        if (axes := dense_axes(layer)) is not None:
            units = math.prod(layer.kernel.shape[axis] for axis in axes[1])
            if name == "output_dense" and parent is block:  # In FNet, this layer is not part of attention.
                name = "outer"
            found[DENSE.get(name, name)] = (parent, attribute, (0, units))
    return found


def _parts(block):
    if not is_keras_hub(block, "TransformerEncoder", "TransformerDecoder"):
        raise ValueError(
            "Bottlenecks need blocks of the KerasHub classes `TransformerEncoder` or `TransformerDecoder`. `LoRA` and "
            "`IA3` need dense layers only, `BitFit` biases. "
            f"Received: {block.name!r} of class {type(block).__name__}"
        )
    return _inside(block)


def _inside(block):
    """Returns `(parent, attribute)` for each layer inside a block, by its name."""
    found = {}
    for parent, _ in layers_within(block):
        if isinstance(parent, AdapterSlot):
            continue
        inside = dict(vars(parent))
        if hasattr(parent, "named_children"):  # torch keeps layers in a separate dict.
            inside |= dict(parent.named_children())
        for attribute, layer in inside.items():
            if isinstance(layer, keras.layers.Layer):
                found.setdefault(getattr(layer, "base", layer).name, (parent, attribute))
    return found
