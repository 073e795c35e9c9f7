"""The places of adapters: layers found by name patterns, in the blocks of this library and of KerasHub alike."""

import contextlib
import math
import re

import keras

from keras_transfer.core.expect import expect
from keras_transfer.core.names import did_you_mean, why_no_expression
from keras_transfer.encoders import EncoderDecoder, encode, is_keras_hub
from keras_transfer.keras_internals import layer_tracking, layers_within
from keras_transfer.layers import (
    Adapted,
    AdaptedDense,
    AdaptedResidual,
    TransformerBlock,
    WeightCopies,
    WeightSlot,
    check_kernel,
    dense_axes,
    stand_in,
)

# Maps our names of layers to patterns of their names. KerasHub's sub-layers end with dropout, before the residual.
OUTPUTS = {
    "attention": "attention_residual|self_attention_dropout",
    "cross_attention": "cross_attention_residual",
    "feed_forward": "feed_forward_residual|feedforward_dropout",
}
CROSS = "cross_attention."  # Prefix of the names of the dense layers in cross-attention.
NORMS = {
    "attention_norm": "attention_norm|self_attention_layer_norm",
    "cross_attention_norm": "cross_attention_norm",
    "feed_forward_norm": "feed_forward_norm|feedforward_layer_norm",
}
DENSE = {
    "query": "query_dense|q_(proj|dense_layer)",
    "key": "key_dense|k_(proj|dense_layer)",
    "value": "value_dense|v_(proj|dense_layer)",
    "output": "attention_output|output_dense|o_(proj|dense_layer)",
    "inner": "((feedforward|mlp)_)?intermediate_dense|up_proj|dense_h_to_4h|ffw_gating_2",
    "gate": "feedforward_gate_dense|gate_proj|ffw_gating",
    "outer": "(feedforward|mlp)_output_dense|down_proj|dense_4h_to_h|ffw_linear",
}


def blocks_of(encoder):
    """Returns the distinct blocks of an encoder, starting at the input."""
    return list({id(block): block for block in encoder.blocks}.values())


def block_names(encoder):
    """Returns the name in the layer groups of each block of an encoder, by its id."""
    groups = encoder.layer_groups()
    return {id(layer): name for name, kind, layers, *_ in groups if kind == "block" for layer in layers}


def width_of(encoder, block=None):
    """Returns the width of the blocks of an encoder, or of the half of an encoder-decoder that has a block."""
    if not isinstance(encoder, EncoderDecoder):
        return encode(encoder).sequence.shape[-1]
    in_decoder = any(block is other for other in encoder.decoder.blocks)
    return encoder.output["decoder_sequence_output" if in_decoder else "sequence_output"].shape[-1]


def put(encoder, slot, name, layer):
    """Builds an adapter and adds it to an `Adapted`, the slot, under a name."""
    rule = (
        "Two kinds of adapters need the same place. Add them under two names, and activate both with "
        "`set_active_adapter`."
    )
    expect(name not in slot.adapters, rule, name=name, place=slot.place)
    if slot not in encoder.attached.slots:
        encoder.attached.slots.append(slot)
    with _scope(slot.place):
        layer.build((None, None, width_of(encoder, slot.parent())))
    with layer_tracking.unlocked(slot):
        slot.adapters[name] = layer


def take(encoder, name):
    """Removes the adapters with a name from all slots, then restores the original layers of the empty slots."""
    for slot in list(encoder.attached.slots):
        if name in slot.adapters:
            slot.activate([other for other in slot.active if other != name])
            with layer_tracking.unlocked(slot):
                layer_tracking.forget(slot, slot.adapters.pop(name))
        if not slot.adapters:
            with layer_tracking.unlocked(slot.parent()):
                slot.detach()
                layer_tracking.forget(slot.parent(), slot)
            encoder.attached.slots.remove(slot)


def put_at_outputs(encoder, parts, name, make, **arguments):
    """Builds adapters and adds one to the end of each given sub-layer of each block that has it, under a name.

    Args:
        parts: List of strings, `"attention"`, `"cross_attention"` and `"feed_forward"`.
        make: Class of the adapters, with `arguments`.
    """
    for block in blocks_of(encoder):
        cls = AdaptedResidual if isinstance(block, TransformerBlock) else Adapted
        places = _layers_named(block, OUTPUTS)
        for part in parts:
            if part in places:
                slot = stand_in(cls, *places[part], f"{block.name}.{part}")
                put(encoder, slot, name, make(**arguments, dtype=block.dtype_policy, name=name))


def norms_of(block):
    """Returns a dict from names to the norms of a block."""
    return {name: getattr(*found) for name, found in _layers_named(block, NORMS).items()}


def copy_weights(encoder, layer, attributes, place, name):
    """Adds copies of some weights of a layer under a name. Weights that do not exist are left out."""
    attributes = [attribute for attribute in attributes if getattr(layer, attribute, None) is not None]
    if attributes:
        slot = stand_in(WeightSlot, layer, "weight_slot", f"{place}.weights")
        put(encoder, slot, name, WeightCopies(slot.cover(attributes), name=name))


def dense_targets(block):
    """Returns a dict from names to the dense layers of a block, as tuples of parent, attribute and part of the outputs.

    The parts of this library's fused attention projection, `"query_key_value"`, are `"query"`, `"key"` and `"value"`.
    The names of the layers of cross-attention begin with `"cross_attention."`.
    """
    found = {}
    if isinstance(block, TransformerBlock):
        attention, feed_forward = block.attention, block.feed_forward
        if hasattr(attention, "query_key_value"):
            keys = attention.num_key_value_heads * attention.head_dim
            sizes, start = {"query": attention.num_heads * attention.head_dim, "key": keys, "value": keys}, 0
            for name, size in sizes.items():
                found[name] = (attention, "query_key_value", (start, size))
                start += size
            found["query_key_value"] = (attention, "query_key_value", (0, start))
        places = [(attention, "output_dense"), (attention, "position")]
        places += [(feed_forward, attribute) for attribute in ("gate", "inner", "outer")]
        for parent, attribute in places:
            layer = getattr(parent, attribute, None)
            if isinstance(layer, (keras.layers.Dense, AdaptedDense)):
                found[attribute.removesuffix("_dense")] = (parent, attribute, (0, layer.kernel.shape[-1]))
        if (cross := block.cross_attention) is not None and hasattr(cross, "key_value"):
            queries, keys = (heads * cross.head_dim for heads in (cross.num_heads, cross.num_key_value_heads))
            found[f"{CROSS}query"] = (cross, "query", (0, queries))
            found[f"{CROSS}key"] = (cross, "key_value", (0, keys))
            found[f"{CROSS}value"] = (cross, "key_value", (keys, keys))
            found[f"{CROSS}output"] = (cross, "output_dense", (0, cross.output_dense.kernel.shape[-1]))
        return found
    for name, (parent, attribute) in _layers_inside(block).items():
        layer = _unwrapped(getattr(parent, attribute))
        if (axes := dense_axes(layer)) is not None:
            units = math.prod(layer.kernel.shape[axis] for axis in axes[1])
            name = next((ours for ours, pattern in DENSE.items() if re.fullmatch(pattern, name)), name)
            if name == "output" and parent is block:  # In FNet, this layer is not part of attention.
                name = "outer"
            found[name] = (parent, attribute, (0, units))
    return found


def _layers_named(block, patterns):
    """Returns a dict from the names of patterns to `(parent, attribute)` of the matching layers in a block."""
    supported = isinstance(block, TransformerBlock) or is_keras_hub(block, "TransformerEncoder", "TransformerDecoder")
    rule = (
        "Bottlenecks require blocks of the KerasHub classes `TransformerEncoder` or `TransformerDecoder`. Use `LoRA` "
        "or `IA3`, which require only dense layers, or `BitFit`, which requires biases."
    )
    expect(supported, rule, block=block.name, kind=type(block).__name__)
    inside, has_cross = _layers_inside(block), getattr(block, "cross_attention", None) is not None
    return {
        name: next(place for own, place in inside.items() if re.fullmatch(pattern, own))
        for name, pattern in patterns.items()
        if has_cross or not name.startswith("cross_attention")
    }


def _layers_inside(block):
    """Returns a dict from names to `(parent, attribute)` for the layers inside a block."""
    found = {}
    for parent, _ in layers_within(block):
        if isinstance(parent, Adapted):
            continue
        inside = dict(vars(parent))
        if hasattr(parent, "named_children"):  # torch keeps layers in a separate dict.
            inside |= dict(parent.named_children())
        for attribute, layer in inside.items():
            if isinstance(layer, keras.layers.Layer):
                found.setdefault(_unwrapped(layer).name, (parent, attribute))
    return found


def _unwrapped(layer):
    return layer.base if isinstance(layer, Adapted) and layer.base is not None else layer


def choose_targets(encoder, targets):
    """Returns `(parent, attribute, place, parts)` for each dense layer that a target matches.

    Args:
        targets: List of names that `dense_targets` returns, or regular expressions that match whole paths
            (`"block_[01].query"`, `"decoder_.*.value"`). `"query"` also matches `"cross_attention.query"`, and so on.
    """
    available, block_name = {}, block_names(encoder)
    for block in blocks_of(encoder):
        for name, found in dense_targets(block).items():
            available[f"{block_name[id(block)]}.{name}"] = (block, *found)
    expect(available, "The blocks of the encoder have no dense layers.", encoder=encoder)
    names = list(dict.fromkeys(path.split(".", 1)[1] for path in available))
    chosen = {}
    for target in targets:
        matches = [path for path in available if _is_named(target, path) or _matches(target, path, available)]
        if not matches:
            raise ValueError(
                f"A target matches no dense layer. Expected some of {names}, or a regular expression of a whole path "
                f"such as {next(iter(available))!r}.{did_you_mean(target, names)} Received: {target!r}"
                f"{why_no_expression(target)}"
            )
        for path in matches:
            block, parent, attribute, part = available[path]
            layer = getattr(parent, attribute)
            check_kernel(_unwrapped(layer))
            place = ".".join(dict.fromkeys((block.name, parent.name, attribute.strip("_"))))
            parts = chosen.setdefault(place, (parent, attribute, place, {}))[3]
            parts[path.rpartition(".")[2]] = part
    return [
        (parent, attribute, place, dict(sorted(parts.items(), key=lambda item: item[1])))
        for parent, attribute, place, parts in chosen.values()
    ]


def _is_named(target, path):
    name = path.split(".", 1)[1]
    return target in (name, name.removeprefix(CROSS))


def _matches(pattern, path, available):
    # An expression matches the parts of the fused layer, if there are any, unless it contains the layer's name.
    whole = "query_key_value"
    part = available.get(f"{path.removesuffix(whole)}query")
    has_parts = path.endswith(whole) and part is not None and part[1:3] == available[path][1:3]
    try:
        return re.fullmatch(pattern, path) is not None and (not has_parts or whole in pattern)
    except (re.error, TypeError):  # The error about a pattern that matches nothing says why it is no expression.
        return False


@contextlib.contextmanager
def _scope(place):
    """Returns a context in which the paths of new weights begin with the place of their slot."""
    with contextlib.ExitStack() as stack:
        for i, part in enumerate(place.split(".")):
            stack.enter_context(keras.name_scope(part, **({} if i else {"override_parent": ""})))
        yield
