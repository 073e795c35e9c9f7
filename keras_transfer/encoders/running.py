"""The layers of a Transformer and how they run, for an encoder and for the decoder of an encoder-decoder."""

import dataclasses
import inspect
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers import AttentionBias, Dropout, mask_bias

EMBEDDINGS = (
    "token_embedding",
    "position_embedding",
    "segment_embedding",
    "language_embedding",
    "embeddings_norm",
    "embeddings_projection",
    "block_inputs",
)


@dataclasses.dataclass(eq=False)
class StackLayers:
    """The layers of a Transformer as attributes, which the functions of this file run.

    Args:
        embeddings_dropout, output_dropout: Floats, dropout rates, which become layers.
        output_transform: Sequence of layers, applied after the final norm.
        is_decoder: Boolean. Whether a token sees only itself and earlier tokens in all blocks, also in those whose
            attention is not causal, because an encoder has it too.
    """

    token_embedding: Any
    blocks: list
    position_embedding: Any = None
    segment_embedding: Any = None
    language_embedding: Any = None
    language: int | None = None
    embeddings_norm: Any = None
    embeddings_dropout: Any = 0.0
    embeddings_projection: Any = None
    block_inputs: Any = None
    final_norm: Any = None
    output_transform: tuple = ()
    pooler: Any = None
    is_decoder: bool = False
    token_scale: float | None = None
    output_dropout: Any = 0.0
    dtype: dataclasses.InitVar[Any] = None
    prefix: dataclasses.InitVar[str] = ""

    def __post_init__(self, dtype, prefix):
        def dropout(rate, name):
            return Dropout(rate, dtype=dtype, name=f"{prefix}{name}")

        self.blocks = list(self.blocks)
        self.embeddings_dropout = dropout(self.embeddings_dropout, "embeddings_dropout")
        self.output_dropout = dropout(self.output_dropout, "output_dropout") if self.output_dropout else None
        self.attention_biases = {}
        for kind in dict.fromkeys(_mask_kinds(self)):
            count = len(self.attention_biases)
            name = f"{prefix}attention_bias" + (f"_{count}" if count else "")
            self.attention_biases[kind] = AttentionBias(causal=kind[0], window=kind[1], dtype=dtype, name=name)


def embed(layers, inputs, start=0):
    """Returns the embeddings of tokens from position `start` on; `layers` has them as attributes."""
    x = layers.token_embedding(inputs["token_ids"])
    if layers.token_scale is not None:
        x = x * layers.token_scale
    if layers.position_embedding is not None:
        own = {"positions": inputs["positions"]} if "positions" in inputs else {"start": start}
        x = x + layers.position_embedding(x, **own)
    if layers.segment_embedding is not None:
        segment_ids = inputs["segment_ids"] if "segment_ids" in inputs else ops.zeros_like(inputs["token_ids"])
        x = x + layers.segment_embedding(segment_ids)
    if layers.language_embedding is not None:
        language_ids = inputs.get("language_ids")
        if language_ids is None:
            language_ids = ops.full_like(inputs["token_ids"], layers.language or 0)
        x = x + layers.language_embedding(language_ids)
    for layer in (layers.embeddings_norm, layers.embeddings_dropout, layers.embeddings_projection):
        x = x if layer is None else layer(x)
    return x


def run_blocks(layers, x, padding_mask, start=0, first_only=False, attention_mask=None, **context):
    """Returns the outputs and hidden states of blocks and of the layers after them.

    Args:
        layers: `StackLayers`, or an encoder with the same attributes.
        x: Tensor of shape `[batch, length, dim]`. Inputs of the first block.
        first_only: Boolean. Whether the last block computes its output of the first token alone.
        attention_mask: Tensor of shape `[batch, length, length]`, 1 where a token sees another.
        **context: Arguments that every block receives: tensors for cross-attention, and functions that record weights.
    """
    arguments = _block_arguments(layers.block_inputs, layers.blocks, x)[start:]
    kinds = _mask_kinds(layers)[start:]
    masks = {} if attention_mask is None else {"attention_mask": attention_mask}
    biases = {kind: layers.attention_biases[kind](padding_mask, **masks) for kind in dict.fromkeys(kinds)}
    hidden_states = [x]
    for index, (block, kind, own) in enumerate(zip(layers.blocks[start:], kinds, arguments), 1):
        if first_only and index == len(kinds):
            own = {**own, "first_only": True}
        x = block(x, attention_bias=biases[kind], **context, **own)
        hidden_states.append(x)
    outputs = {"sequence_output": _finish(layers, x)}
    if layers.pooler is not None:
        outputs["pooled_output"] = layers.pooler(outputs["sequence_output"][:, 0])
    return outputs, hidden_states


def run_and_record(layers, inputs, **options):
    """Runs the blocks once more, and returns the weights of their attention and of their cross-attention, two lists."""
    own, cross = [], []
    options["record"] = own.append
    if layers.blocks[0].cross_attention is not None:
        options["record_cross"] = cross.append
    run_blocks(layers, embed(layers, inputs), inputs["padding_mask"], **options)
    return own, cross


def step(
    layers, token_ids, cache, start, padding_mask=None, first=None, context=None, segment_ids=None, positions=None
):
    """Encodes further tokens, given the cache of the tokens before them; see `TransformerStack.step`.

    Args:
        context: What `EncoderDecoder.encode_context` returns, for cross-attention.
        positions: Integer tensor of shape `[batch, length]`, in place of those from `start` on.
    """
    num_keys = ops.shape(cache[0]["attention"][0])[2]
    if unable := _layers_without_start(layers):
        raise ValueError(
            f"Decoding with a cache is not possible, because the layer `{type(unable[0]).__name__}` of the encoder "
            "needs all tokens at once. Call the encoder with whole texts instead. "
            f"Received: `step` with a cache of {len(cache)} blocks"
        )
    kinds = _mask_kinds(layers)
    rule = (
        "`padding_mask` is required unless all blocks are causal, because the cache also contains positions "
        "without a token."
    )
    expect(padding_mask is not None or all(causal for causal, _ in kinds), rule, padding_mask=None)
    inputs = {"token_ids": ops.convert_to_tensor(token_ids)}
    if segment_ids is not None:
        inputs["segment_ids"] = ops.convert_to_tensor(segment_ids)
    if positions is not None:
        inputs["positions"] = positions
    x = embed(layers, inputs, start if first is None else start - first)
    arguments = _block_arguments(layers.block_inputs, layers.blocks, x, start=start, num_keys=num_keys)
    sizes = {"length": ops.shape(x)[1], "num_keys": num_keys, "start": start}
    if first is not None:
        real = ops.arange(num_keys) >= first[:, None]
        padding_mask = real if padding_mask is None else ops.logical_and(real, ops.cast(padding_mask, "bool"))
    biases, updated = {}, []
    # It is not a part of the context, because TensorFlow fuses a sum of scores and a tensor from outside of a loop, and
    # then the loops of exported models return empty tensors.
    context_bias = None if context is None else mask_bias(context["padding_mask"])
    for index, (block, kind, block_cache, own) in enumerate(zip(layers.blocks, kinds, cache, arguments)):
        if kind not in biases:
            biases[kind] = mask_bias(padding_mask, None, *kind, **sizes)
        if context is not None:
            block_cache = {**block_cache, "cross_attention": context["cache"][index]}
            own = {**own, "context_bias": context_bias}
        x, block_cache = block(x, attention_bias=biases[kind], cache=block_cache, cache_index=start, **own)
        # The keys of the context stay out of the cache, which a loop carries along and a beam search reorders.
        updated.append({name: values for name, values in block_cache.items() if name != "cross_attention"})
    return _finish(layers, x), updated


def decodes_with_cache(layers):
    """Returns whether these are a Transformer's, and `step` can run them: no block's input needs all tokens at once."""
    return hasattr(layers, "block_inputs") and not _layers_without_start(layers)


def carries_state(encoder):
    """Returns whether an encoder is recurrent: `step` continues texts from a state, which begins as `empty_state`."""
    return hasattr(encoder, "empty_state") and hasattr(encoder, "step")


def groups_of(layers):
    """Returns the layer groups of a Transformer, as `Encoder.layer_groups` does."""
    found = keras.tree.flatten([getattr(layers, name) for name in EMBEDDINGS])
    embeddings = list({id(layer): layer for layer in found if layer is not None}.values())
    blocks = list({id(block): block for block in layers.blocks}.values())
    groups = [("embeddings", "embeddings", embeddings), *((block.name, "block", [block]) for block in blocks)]
    groups += [] if layers.final_norm is None else [("final_norm", "other", [layers.final_norm])]
    groups += [("output_transform", "other", list(layers.output_transform))] if layers.output_transform else []
    return groups + ([] if layers.pooler is None else [("pooler", "pooler", [layers.pooler])])


def _finish(layers, x):
    for layer in (layers.final_norm, *layers.output_transform, layers.output_dropout):
        x = x if layer is None else layer(x)
    return x


def _mask_kinds(layers):
    """Returns whether each block is causal, and its window."""
    return [(block.attention.causal or layers.is_decoder, block.attention.window) for block in layers.blocks]


def _block_arguments(layers, blocks, x, **options):
    """Returns the keyword arguments of each block. A layer that serves several blocks is called once."""
    layers = layers if isinstance(layers, list) else [layers] * len(blocks)
    results = {}
    for layer in layers:
        if id(layer) not in results:
            known = {} if layer is None else _parameters(layer)
            own = {name: value for name, value in options.items() if name in known}
            results[id(layer)] = {} if layer is None else layer(x, **own)
    return [results[id(layer)] for layer in layers]


def _layers_without_start(layers):
    found = keras.tree.flatten(layers.block_inputs)
    return [layer for layer in found if layer is not None and "start" not in _parameters(layer)]


def _parameters(layer):
    return inspect.signature(layer.call).parameters
