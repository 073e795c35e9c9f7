"""Where adapters go: the slots of an encoder's blocks and layers."""

import contextlib
import re

import keras

from keras_transfer.adaptation.adapters import backbone_places
from keras_transfer.encoders.base import encode
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.layers.adapters import (
    AdaptedDense,
    AdaptedLayer,
    AdapterSlot,
    PrefixSlot,
    PromptSlot,
    WeightCopies,
    WeightSlot,
    check_kernel,
)
from keras_transfer.layers.attention import MultiHeadAttention
from keras_transfer.layers.blocks import TransformerBlock
from keras_transfer.names import did_you_mean


def blocks_of(encoder):
    """Returns the distinct blocks of an encoder, starting at the input."""
    return list({id(block): block for block in encoder.blocks}.values())


def width_of(encoder):
    """Returns the width of an encoder's blocks."""
    return encode(encoder).sequence.shape[-1]


def put(encoder, slot, name, layer):
    """Builds an adapter and adds it to a slot under a name.

    Args:
        encoder: Encoder that has the slot.
        slot: `AdapterSlot`, from one of the functions below.
        name: String. Name of the adapter.
        layer: Unbuilt `Adapter`.
    """
    if name in slot.adapters:
        raise ValueError(
            "Two kinds of adapters act at the same place. Add them under two names, and activate both with "
            f"`set_active_adapter`. Received: name={name!r} twice at {slot.place!r}"
        )
    if slot not in encoder.adapter_slots:
        encoder.adapter_slots.append(slot)
    with _scope(slot.place):
        layer.build((None, None, width_of(encoder)))
    with layer_tracking.unlocked(slot):
        slot.adapters[name] = layer


def take(encoder, name):
    """Removes the adapters with a name from all slots, then removes the empty slots from the encoder."""
    for slot in list(encoder.adapter_slots):
        if name in slot.adapters:
            slot.activate([other for other in slot.active if other != name])
            with layer_tracking.unlocked(slot):
                layer_tracking.forget(slot, slot.adapters.pop(name))
        if not slot.adapters:
            with layer_tracking.unlocked(slot.parent()):
                slot.detach()
                layer_tracking.forget(slot.parent(), slot)
            encoder.adapter_slots.remove(slot)


def put_in_blocks(encoder, sublayers, name, make, *arguments):
    """Builds adapters and adds one to the slot of each given sub-layer in each block, under a name.

    Args:
        encoder: Encoder.
        sublayers: List of strings, as for `sublayer_slot`.
        name: String. Name of the adapters.
        make: Class of the adapters.
        *arguments: Arguments of the class.
    """
    for block in blocks_of(encoder):
        for sublayer in sublayers:
            layer = make(*arguments, dtype=block.dtype_policy, name=name)
            put(encoder, sublayer_slot(block, sublayer), name, layer)


def sublayer_slot(block, attribute):
    """Returns the slot at the output of a sub-layer of a block, or at the output of the `"block"` itself."""
    if not isinstance(block, TransformerBlock):
        return replacing_slot(AdaptedLayer, *backbone_places.output_of(block, attribute), f"{block.name}.{attribute}")
    if not isinstance(block.adapters.get(attribute), AdapterSlot):
        if attribute in block.adapters:
            raise ValueError(
                f"The slot is taken by a layer of the constructor. Received: {attribute!r} of block {block.name!r}"
            )
        with layer_tracking.unlocked(block):
            block.adapters[attribute] = AdapterSlot(block, attribute, f"{block.name}.{attribute}")
    return block.adapters[attribute]


def replacing_slot(cls, parent, attribute, place):
    """Returns the slot that takes the place of a layer in its parent.

    Args:
        cls: `AdaptedLayer`, or `AdaptedDense`, whose adapters change a dense layer.
        parent, attribute, place: See `AdapterSlot`.
    """
    layer = getattr(parent, attribute)
    if not isinstance(layer, AdaptedLayer):
        with layer_tracking.unlocked(parent):
            layer = cls(layer, parent, attribute, place)
            setattr(parent, attribute, layer)
    return layer


def prefix_slot(block):
    """Returns the slot of prefixes in the attention of a block."""
    attention = block.attention
    if type(attention) is not MultiHeadAttention:
        raise ValueError(
            f"Prefixes need attention of the class `MultiHeadAttention`. Received: {type(attention).__name__} in "
            f"{block.name!r}"
        )
    if attention.prefix is None:
        with layer_tracking.unlocked(attention):
            attention.prefix = PrefixSlot(attention, "prefix", f"{block.name}.attention.prefix")
    return attention.prefix


def prompt_slots(encoder):
    """Returns the slots of prompts around each block of an encoder.

    Raises:
        ValueError: If a longer sequence does not fit its blocks.
    """
    blocks = blocks_of(encoder)
    if encoder.block_inputs is not None or len(blocks) < len(encoder.blocks):
        raise ValueError(
            "`Prompt` needs an encoder whose blocks share neither weights nor relative positions. "
            f"Received: {type(encoder).__name__}"
        )
    if any(block.attention.causal or block.attention.window is not None for block in blocks):
        raise ValueError("`Prompt` needs blocks that see all tokens. Use `Prefix`. Received: causal or local blocks")
    for block in blocks:
        if "prompt" not in block.adapters:
            ends = (block is blocks[0], block is blocks[-1])
            with layer_tracking.unlocked(block):
                block.adapters["prompt"] = PromptSlot(*ends, block, "prompt", f"{block.name}.prompt")
    return [block.adapters["prompt"] for block in blocks]


def weight_slot(layer, attributes, place):
    """Returns the slot for copies of some weights of a layer."""
    slot = getattr(layer, "weight_slot", None)
    if slot is None:
        with layer_tracking.unlocked(layer):
            layer.weight_slot = slot = WeightSlot(layer, "weight_slot", f"{place}.weights")
    slot.cover(attributes)
    return slot


def copy_weights(encoder, layer, attributes, place, name):
    """Adds copies of the given weights of a layer to its slot under a name, and skips weights that do not exist."""
    attributes = [attribute for attribute in attributes if getattr(layer, attribute, None) is not None]
    if attributes:
        slot = weight_slot(layer, attributes, place)
        originals = slot.originals()
        copies = WeightCopies({attribute: originals[attribute] for attribute in attributes}, name=name)
        put(encoder, slot, name, copies)


def norms_of(block):
    """Returns the norms of a block by their names."""
    if not isinstance(block, TransformerBlock):
        return backbone_places.norms_of(block)
    return {name: getattr(block, name) for name in ("attention_norm", "feed_forward_norm")}


def dense_targets(block):
    """Returns the dense layers of a block by their names, as tuples of parent, attribute and part of the outputs.

    The parts of the fused attention projection, `"query_key_value"`, are `"query"`, `"key"` and `"value"`.
    """
    if not isinstance(block, TransformerBlock):
        return backbone_places.dense_targets(block)
    attention, feed_forward, found = block.attention, block.feed_forward, {}
    if hasattr(attention, "query_key_value"):
        keys = attention.num_key_value_heads * attention.head_dim
        sizes, start = {"query": attention.num_heads * attention.head_dim, "key": keys, "value": keys}, 0
        for name, size in sizes.items():
            found[name] = (attention, "query_key_value", (start, size))
            start += size
        found["query_key_value"] = (attention, "query_key_value", (0, start))
    for parent, attributes in ((attention, ("output_dense", "position")), (feed_forward, ("gate", "inner", "outer"))):
        for attribute in attributes:
            layer = getattr(parent, attribute, None)
            if isinstance(layer, (keras.layers.Dense, AdaptedDense)):
                found[attribute.removesuffix("_dense")] = (parent, attribute, (0, layer.kernel.shape[-1]))
    return found


def choose_targets(encoder, targets):
    """Returns `(parent, attribute, place, parts)` for each dense layer that a target matches.

    Args:
        encoder: Encoder.
        targets: List of names that `dense_targets` returns, or regular expressions that match whole paths
            (`"block_[01].query"`).

    Raises:
        ValueError: If a target matches nothing, or if it matches a layer that is quantized or has Keras's own LoRA.
    """
    available = {}
    for block in blocks_of(encoder):
        for name, found in dense_targets(block).items():
            available[f"{block.name}.{name}"] = (block, *found)
    if not available:
        raise ValueError(f"The blocks of the encoder have no dense layers. Received: {type(encoder).__name__}")
    names = list(dict.fromkeys(path.split(".", 1)[1] for path in available))
    chosen = {}
    for target in targets:
        matches = [path for path in available if path.split(".", 1)[1] == target or _matches(target, path, available)]
        if not matches:
            raise ValueError(
                f"A target matches no dense layer. Expected some of {names}, or a regular expression of a whole path "
                f"such as {next(iter(available))!r}.{did_you_mean(target, names)} Received: {target!r}"
            )
        for path in matches:
            block, parent, attribute, part = available[path]
            layer = getattr(parent, attribute)
            check_kernel(getattr(layer, "base", layer))
            place = ".".join(dict.fromkeys((block.name, parent.name, attribute.strip("_"))))
            parts = chosen.setdefault(place, (parent, attribute, place, {}))[3]
            parts[path.split(".", 1)[1]] = part
    return [
        (parent, attribute, place, dict(sorted(parts.items(), key=lambda item: item[1])))
        for parent, attribute, place, parts in chosen.values()
    ]


def _matches(pattern, path, available):
    whole = "query_key_value"  # An expression matches the parts of this layer, if any, unless it contains its name.
    part = available.get(f"{path.removesuffix(whole)}query")
    has_parts = path.endswith(whole) and part is not None and part[1:3] == available[path][1:3]
    try:
        return re.fullmatch(pattern, path) is not None and (not has_parts or whole in pattern)
    except (re.error, TypeError):
        return False


@contextlib.contextmanager
def _scope(place):
    """Returns a context in which the paths of new weights begin with the place of their slot."""
    with contextlib.ExitStack() as stack:
        for i, part in enumerate(place.split(".")):
            stack.enter_context(keras.name_scope(part, **({} if i else {"override_parent": ""})))
        yield
