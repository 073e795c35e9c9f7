"""The layers of a Transformer, how they run, and the base class of the encoders that consist of them."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.layers import (
    AttentionBias,
    Dropout,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    PositionEmbedding,
    SinusoidalPositions,
    TransformerBlock,
    mask_bias,
)

MASKS = ("padding_mask", "attention_mask")  # These inputs say which tokens see which.
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
        language: Integer. The language of all tokens. `None` for `language_ids` as an input.
        embeddings_norm: Layer, applied to the sum of the embeddings, before the dropout and the projection.
        embeddings_dropout, output_dropout: Floats, dropout rates, which become layers.
        block_inputs: Layer from the embeddings to a dict of keyword arguments for every block, such as
            `RotaryPositions`, or a list of one layer for each block. `step` also passes it `start` and, if it accepts
            it, `num_keys`.
        output_transform: Sequence of layers, applied after the final norm.
        pooler: Layer from the first token's vector to `pooled_output`.
        is_decoder: Boolean. Whether a token sees only itself and earlier tokens in all blocks, also in those whose
            attention is not causal, because an encoder has it too.
        token_scale: Float. Factor of the token embeddings.
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
        for block in self.blocks:
            block.shares_trace = self.blocks.count(block) == 1
        self.embeddings_dropout = dropout(self.embeddings_dropout, "embeddings_dropout")
        self.output_dropout = dropout(self.output_dropout, "output_dropout") if self.output_dropout else None
        self.attention_biases = {}
        for kind in dict.fromkeys(_mask_kinds(self)):
            count = len(self.attention_biases)
            name = f"{prefix}attention_bias" + (f"_{count}" if count else "")
            self.attention_biases[kind] = AttentionBias(causal=kind[0], window=kind[1], dtype=dtype, name=name)


_OF_DECODERS = ("output_transform", "is_decoder")
_FURTHER_LAYERS = [field.name for field in dataclasses.fields(StackLayers)[2:] if field.name not in _OF_DECODERS]


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


def run_and_record(layers, inputs, heads=None, neurons=None, **options):
    """Runs the blocks once more, and returns the weights of their attention and of their cross-attention, two lists.

    What each block's heads and neurons return is appended to the lists `heads` and `neurons`.
    """
    own, cross, heads = [], [], [] if heads is None else heads
    options["record"] = lambda weights, outputs: (own.append(weights), heads.append(outputs))
    options["record_neurons"] = None if neurons is None else neurons.append
    if layers.blocks[0].cross_attention is not None:
        options["record_cross"] = lambda weights, _: cross.append(weights)
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
    rule = (
        "Decoding with a cache is not possible, because a layer of the encoder needs all tokens at once. Call the "
        "encoder with whole texts instead."
    )
    unable = [type(layer).__name__ for layer in _layers_without_start(layers)]
    expect(not unable, rule, layers=unable)
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


class TransformerStack(Encoder):
    """Base class of the encoders that consist of embeddings and Transformer blocks.

    A subclass creates its layers and passes them on. Each becomes an attribute of the same name, which is `None` if
    there is no such layer.

    Args:
        settings: Dict of the arguments of the subclass's constructor in order. They become attributes and the config.
            `num_heads` and `intermediate_dim` may be lists, with a number for each block.
        token_embedding: Layer from token ids to vectors, to which those of positions, segments and languages are added.
        blocks: List of `TransformerBlock`s in order. One that occurs several times shares its weights (ALBERT).
        segment_ids: Boolean. Whether `segment_ids` is an input. Otherwise every token is in segment 0.
        further_inputs: Tuple of strings, names of further inputs of any of these encoders: `"attention_mask"`
            `[batch, length, length]`, 1 where a token sees another in addition to the other masks, see
            `layers.attention_pattern`; and `"positions"` `[batch, length]`, in place of 0, 1, 2, ...
        head_dim, layer_drop: The width of a head, and the rate at which a training step skips a block. The subclass has
            made its blocks with them. They become `settings`.
        **options: The other layers of `StackLayers`, and `pooling`, `normalize`, `name` and `trainable` of `Encoder`.
    """

    def __init__(
        self,
        settings,
        token_embedding,
        blocks,
        *,
        segment_ids=True,
        further_inputs=(),
        head_dim=None,
        layer_drop=0.0,
        dtype=None,
        **options,
    ):
        further_layers = {name: options.pop(name) for name in _FURTHER_LAYERS if name in options}
        layers = StackLayers(token_embedding, blocks, **further_layers, dtype=dtype)
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] if layers.segment_embedding is not None and segment_ids else []
        names += ["language_ids"] if layers.language_embedding is not None and layers.language is None else []
        names += _checked_inputs(further_inputs, layers.position_embedding)
        shapes = {"attention_mask": (None, None)}
        inputs = {name: keras.Input(shapes.get(name, (None,)), dtype="int32", name=name) for name in names}
        masks = {name: inputs[name] for name in MASKS if name in inputs}
        outputs, hidden_states = run_blocks(layers, embed(layers, inputs), **masks)
        given = {"further_inputs": list(further_inputs), "head_dim": head_dim, "layer_drop": layer_drop}
        settings = {**settings, **{name: value for name, value in given.items() if value}}
        super().__init__(inputs, outputs, hidden_states, dtype=dtype, settings=settings, **options)
        for attribute, layer in vars(layers).items():
            if attribute != "attention_biases":
                setattr(self, attribute, layer)
        self.further_inputs = tuple(further_inputs)
        # Keras does not track dicts whose keys are tuples.
        object.__setattr__(self, "attention_biases", layers.attention_biases)
        self._pooled_alone = None

    @property
    def is_causal(self) -> bool:
        """Boolean. Whether tokens see only earlier ones, so that the encoder can continue a text with a cache."""
        return all(block.attention.causal for block in self.blocks)

    def layer_groups(self) -> list:
        return groups_of(self)

    def pooled_alone(self) -> Any:
        """Returns `pooled_output` for models that use no other output of the encoder.

        Its last block computes only the first token, the only one that the pooler uses.

        Returns:
            A symbolic tensor of shape `[batch, hidden_dim]`.
        """
        if not self._can_skip():
            return self.output["pooled_output"]
        if self._pooled_alone is None:
            masks = {name: self.input[name] for name in MASKS if name in self.input}
            last = len(self.blocks) - 1
            outputs, _ = run_blocks(self, self.hidden_states[-2], start=last, first_only=True, **masks)
            self._pooled_alone = outputs["pooled_output"]
        return self._pooled_alone

    def _can_skip(self):
        """Returns whether the last block can leave out all tokens but the first.

        It cannot if it is used several times, if a norm follows it, or if it has layers that are not this library's,
        which might need the outputs of all tokens.
        """
        last = self.blocks[-1] if self.blocks else None
        ours = type(last) is TransformerBlock and type(last.attention) is MultiHeadAttention
        ours = ours and type(last.feed_forward) in (FeedForward, GatedFeedForward)
        return ours and self.final_norm is None and self.blocks.count(last) == 1

    def run_blocks(
        self, hidden: Any, padding_mask: Any, start: int = 0, first_only: bool = False, attention_mask: Any = None
    ) -> tuple:
        """Runs the blocks from one of them on, and the layers that follow the blocks.

        Args:
            hidden: Tensor of shape `[batch, length, dim]`. Inputs of the first of these blocks, which are
                `hidden_states[start]`.
            padding_mask: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
            start: Integer. Number of blocks to leave out. Defaults to `0`.
            first_only: Boolean. Whether the last block may leave out all tokens but the first, because only
                `pooled_output` is used. Defaults to `False`.
            attention_mask: Tensor of shape `[batch, length, length]`, the input of this name. Defaults to `None`.

        Returns:
            A tuple of the outputs of the encoder, and the list of the hidden states from `hidden` on.

        Example:
        ```python
        encoder = keras_transfer.encoders.TransformerEncoder(
            100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16
        )
        outputs, states = encoder.run_blocks(keras.random.normal((1, 3, 8)), np.ones((1, 3)), start=1)
        ```
        """
        return run_blocks(self, hidden, padding_mask, start, first_only and self._can_skip(), attention_mask)

    def attention_weights(self, inputs: Mapping, heads: list | None = None, neurons: list | None = None) -> dict:
        """Returns the weights of attention; see `Encoder.attention_weights`.

        Args:
            inputs: Dict of tensors, one for each input of the encoder.
            heads: List to which the outputs of the heads of each block are appended, tensors `[batch, length, heads *
                head_dim]`. Defaults to `None`.
            neurons: The same for the neurons, tensors `[batch * length, intermediate_dim]`. Defaults to `None`.

        Returns:
            A dict with the key `encoder`.
        """
        options = {"attention_mask": inputs["attention_mask"]} if "attention_mask" in self.input else {}
        return {"encoder": run_and_record(self, inputs, heads, neurons, **options)[0]}

    # === Decoding with a cache ===

    def empty_cache(self, batch_size: int, length: int) -> list:
        """Returns the cache that `step` starts from.

        Args:
            batch_size: Integer. Number of sequences.
            length: Integer. Number of tokens for which the cache has room.

        Returns:
            A list of one dict of tensors for each block.
        """
        return [block.empty_cache(batch_size, length) for block in self.blocks]

    def step(
        self,
        token_ids: Any,
        cache: Sequence,
        start: int,
        padding_mask: Any = None,
        first: Any = None,
        segment_ids: Any = None,
    ) -> tuple:
        """Encodes further tokens, given the cache of the tokens before them.

        Sequences of different lengths can take their steps together if they are aligned on the right: `first` says
        where each begins, and everything before it is padding.

        Args:
            token_ids: Tensor of shape `[batch, length]`, the further tokens.
            cache: List from `empty_cache` or from the last step.
            start: Integer or integer tensor. Position in the cache of the first of these tokens.
            padding_mask: Tensor of shape `[batch, cache_length]`, 1 for a real token. Defaults to `None`, in which case
                the blocks must be causal.
            first: Integer tensor of shape `[batch]`. Position in the cache of the first token of each sequence.
                Defaults to `None`, 0 for all.
            segment_ids: Tensor of shape `[batch, length]`, the segments of these tokens, for an encoder with segments.
                Defaults to `None`, 0 for all.

        Returns:
            A tuple of `sequence_output`, `[batch, length, dim]`, and the updated cache.

        Raises:
            ValueError: If `padding_mask` is `None` and a block is not causal, if `segment_ids` are passed to an encoder
                without segments, or if `block_inputs` needs all tokens at once.

        Example:
        ```python
        encoder = keras_transfer.encoders.TransformerEncoder(
            100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
        )
        cache = encoder.empty_cache(batch_size=1, length=4)
        first, cache = encoder.step(np.array([[5, 6]]), cache, start=0)
        third, cache = encoder.step(np.array([[7]]), cache, start=2)
        ```
        """
        rule = "`segment_ids` can only be passed to an encoder with segments. Leave them out."
        expect(segment_ids is None or self.segment_embedding is not None, rule, encoder=self)
        return step(self, token_ids, cache, start, padding_mask, first, segment_ids=segment_ids)


def _checked_inputs(names, position_embedding):
    """Returns the names of further inputs as a list, or raises a `ValueError` if there is no such input."""
    known = ["attention_mask"]
    known += ["positions"] if takes_positions(position_embedding) else []
    return check_further_inputs(names, known)


def takes_positions(layer):
    """Returns whether a layer adds positions that may be an input."""
    return isinstance(layer, (PositionEmbedding, SinusoidalPositions))


def check_further_inputs(names, known):
    """Returns the names of further inputs as a list, or raises a `ValueError` if one of them is not known."""
    rule = f"`further_inputs` must be a list of some of {known}."
    expect(not isinstance(names, str) and set(names) <= set(known), rule, further_inputs=names)
    return list(names)
