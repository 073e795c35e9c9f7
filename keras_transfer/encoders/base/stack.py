"""The base class of Transformer encoders: the functional model, layer groups, and decoding with a cache."""

import inspect
import types

import keras
from keras import ops

from keras_transfer.encoders.base.encoder import Encoder
from keras_transfer.layers.attention import AttentionBias, MultiHeadAttention, mask_bias
from keras_transfer.layers.basic import Dropout
from keras_transfer.layers.blocks import FeedForward, GatedFeedForward, TransformerBlock

_EMBEDDINGS = (
    "token_embedding",
    "position_embedding",
    "segment_embedding",
    "embeddings_norm",
    "embeddings_projection",
    "block_inputs",
)


class TransformerStack(Encoder):
    """Base class of the encoders that consist of embeddings and Transformer blocks.

    A subclass creates its layers and passes them on. Each becomes an attribute of the same name, which is `None` if
    there is no such layer.

    Args:
        settings: Dict of the arguments of the subclass's constructor in order. They become attributes and the config.
        token_embedding: Layer from token ids to vectors.
        blocks: List of `TransformerBlock`s in order. One that occurs several times shares its weights (ALBERT).
        position_embedding: Layer. Its output is added to the token embeddings. Defaults to `None`.
        segment_embedding: Layer. Its output is added to the token embeddings. Defaults to `None`.
        embeddings_norm: Layer, applied to the sum of the embeddings. Defaults to `None`.
        embeddings_dropout: Float between 0 and 1. Dropout rate after the norm. Defaults to `0.0`.
        embeddings_projection: Layer, applied after the dropout. Defaults to `None`.
        block_inputs: Layer from the embeddings to a dict of keyword arguments for every block, such as
            `RotaryPositions`, or a list of one layer for each block. `step` also passes it `start`. Defaults to `None`.
        final_norm: Layer, applied after the last block. Defaults to `None`.
        pooler: Layer from the first token's vector to `pooled_output`. Defaults to `None`.
        segment_ids: Boolean. Whether `segment_ids` is an input. Otherwise every token is in segment 0. Defaults to
            `True`.
        dtype, **kwargs: See `Encoder`.
    """

    def __init__(
        self,
        settings,
        token_embedding,
        blocks,
        position_embedding=None,
        segment_embedding=None,
        embeddings_norm=None,
        embeddings_dropout=0.0,
        embeddings_projection=None,
        block_inputs=None,
        final_norm=None,
        pooler=None,
        segment_ids=True,
        dtype=None,
        **kwargs,
    ):
        layers = {name: layer for name, layer in locals().items() if name in (*_EMBEDDINGS, "final_norm", "pooler")}
        layers["embeddings_dropout"] = Dropout(embeddings_dropout, dtype=dtype, name="embeddings_dropout")
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] if segment_embedding is not None and segment_ids else []
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        biases = {}
        for kind in map(_mask_kind, blocks):
            if kind not in biases:
                name = f"attention_bias_{len(biases)}" if biases else "attention_bias"
                biases[kind] = AttentionBias(causal=kind[0], window=kind[1], dtype=dtype, name=name)
        parts = types.SimpleNamespace(**layers, blocks=list(blocks), attention_biases=biases)
        outputs, hidden_states = _run_blocks(parts, _embed(parts, inputs), inputs["padding_mask"])
        super().__init__(inputs, outputs, hidden_states, dtype=dtype, settings=settings, **kwargs)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.blocks = parts.blocks
        object.__setattr__(self, "attention_biases", biases)  # Keras does not track dicts whose keys are tuples.

    def layer_groups(self):
        layers = keras.tree.flatten([getattr(self, name) for name in _EMBEDDINGS])
        embeddings = list({id(layer): layer for layer in layers if layer is not None}.values())
        blocks = list({id(block): block for block in self.blocks}.values())
        groups = [("embeddings", "embeddings", embeddings), *((block.name, "block", [block]) for block in blocks)]
        groups += [] if self.final_norm is None else [("final_norm", "other", [self.final_norm])]
        return groups + ([] if self.pooler is None else [("pooler", "pooler", [self.pooler])])

    def block_for_first_token(self):
        """Returns the last block if a model that only reads `pooled_output` can use `first_token_only` with it.

        Returns `None` if the block is used several times, if a norm follows it, and for parts that are not this
        library's, which might need the outputs of all tokens.
        """
        last = self.blocks[-1] if self.blocks else None
        if type(last) is not TransformerBlock or self.blocks.count(last) > 1:
            return None
        able = self.pooler is not None and self.final_norm is None and type(last.attention) is MultiHeadAttention
        able = able and type(last.feed_forward) in (FeedForward, GatedFeedForward)
        return last if able else None

    def run_blocks(self, hidden, padding_mask, start=0):
        """Runs the blocks from one of them on, and the layers that follow the blocks.

        Args:
            hidden: Tensor of shape `[batch, length, dim]`. Inputs of the first of these blocks, which are
                `hidden_states[start]`.
            padding_mask: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
            start: Integer. Number of blocks to leave out. Defaults to `0`.

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
        return _run_blocks(self, hidden, padding_mask, start)

    # === Decoding with a cache ===

    def empty_cache(self, batch_size, length):
        """Returns the cache that `step` starts from.

        Args:
            batch_size: Integer. Number of sequences.
            length: Integer. Number of tokens for which the cache has room.

        Returns:
            A list of one dict of tensors for each block.
        """
        return [block.empty_cache(batch_size, length) for block in self.blocks]

    def step(self, token_ids, cache, start, padding_mask=None, first=None):
        """Encodes further tokens, given the cache of the tokens before them.

        Sequences of different lengths can take their steps together if they are aligned on the right: `first` says
        where each begins, and everything before it is padding.

        Args:
            token_ids: Tensor of shape `[batch, length]`, the further tokens.
            cache: List from `empty_cache` or from the last step.
            start: Integer or integer tensor. Place in the cache of the first of these tokens.
            padding_mask: Tensor of shape `[batch, room of the cache]`, 1 for a real token. Defaults to `None`, in which
                case the blocks must be causal.
            first: Integer tensor of shape `[batch]`. Place in the cache of the first token of each sequence, which has
                position 0. Defaults to `None`, 0 for all.

        Returns:
            A tuple of `sequence_output`, `[batch, length, dim]`, and the updated cache.

        Raises:
            ValueError: If `padding_mask` is `None` and a block is not causal, or if `block_inputs` needs all tokens at
                once.

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
        for layer in keras.tree.flatten(self.block_inputs):
            if layer is not None and "start" not in inspect.signature(layer.call).parameters:
                raise ValueError(
                    f"`{type(self).__name__}` cannot decode with a cache, because its `{type(layer).__name__}` needs "
                    "all tokens at once. Call the encoder with whole texts instead. "
                    f"Received: `step` with a cache of {len(cache)} blocks"
                )
        if padding_mask is None and not all(block.attention.causal for block in self.blocks):
            raise ValueError(
                "`padding_mask` is required unless all blocks are causal, because the cache also contains positions "
                "without a token. Received: padding_mask=None"
            )
        x = _embed(self, {"token_ids": ops.convert_to_tensor(token_ids)}, start if first is None else start - first)
        arguments = _block_arguments(self.block_inputs, self.blocks, x, start=start)
        sizes = {"length": ops.shape(x)[1], "num_keys": ops.shape(cache[0]["attention"][0])[2], "start": start}
        if first is not None:
            real = ops.arange(sizes["num_keys"]) >= first[:, None]
            padding_mask = real if padding_mask is None else ops.logical_and(real, ops.cast(padding_mask, "bool"))
        biases, updated = {}, []
        for block, block_cache, own in zip(self.blocks, cache, arguments):
            kind = _mask_kind(block)
            if kind not in biases:
                biases[kind] = mask_bias(padding_mask, None, *kind, **sizes)
            x, block_cache = block(x, attention_bias=biases[kind], cache=block_cache, cache_index=start, **own)
            updated.append(block_cache)
        return (x if self.final_norm is None else self.final_norm(x)), updated


def _run_blocks(layers, x, padding_mask, start=0):
    """Returns the outputs and hidden states of an encoder; `layers` has its layers as attributes."""
    blocks, arguments = layers.blocks[start:], _block_arguments(layers.block_inputs, layers.blocks, x)[start:]
    biases = {kind: layers.attention_biases[kind](padding_mask) for kind in dict.fromkeys(map(_mask_kind, blocks))}
    hidden_states = [x]
    for block, own in zip(blocks, arguments):
        x = block(x, attention_bias=biases[_mask_kind(block)], **own)
        hidden_states.append(x)
    outputs = {"sequence_output": x if layers.final_norm is None else layers.final_norm(x)}
    if layers.pooler is not None:
        outputs["pooled_output"] = layers.pooler(outputs["sequence_output"][:, 0])
    return outputs, hidden_states


def _mask_kind(block):
    return block.attention.causal, block.attention.window


def _block_arguments(layers, blocks, x, **options):
    """Returns the keyword arguments of each block. A layer that serves several blocks is called once."""
    layers = layers if isinstance(layers, list) else [layers] * len(blocks)
    results = {}
    for layer in layers:
        if id(layer) not in results:
            results[id(layer)] = {} if layer is None else layer(x, **options)
    return [results[id(layer)] for layer in layers]


def _embed(layers, inputs, start=0):
    """Returns the embeddings of tokens from position `start` on; `layers` has them as attributes."""
    x = layers.token_embedding(inputs["token_ids"])
    if layers.position_embedding is not None:
        x = x + layers.position_embedding(x, start=start)
    if layers.segment_embedding is not None:
        segment_ids = inputs["segment_ids"] if "segment_ids" in inputs else ops.zeros_like(inputs["token_ids"])
        x = x + layers.segment_embedding(segment_ids)
    for layer in (layers.embeddings_norm, layers.embeddings_dropout, layers.embeddings_projection):
        x = x if layer is None else layer(x)
    return x
