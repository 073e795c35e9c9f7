"""The base class of Transformer encoders: the functional model, layer groups, and decoding with a cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.encoders.running import StackLayers, embed, groups_of, run_and_record, run_blocks, step
from keras_transfer.layers import (
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    PositionEmbedding,
    SinusoidalPositions,
    TransformerBlock,
)

MASKS = ("padding_mask", "attention_mask")  # These inputs say which tokens see which.


class TransformerStack(Encoder):
    """Base class of the encoders that consist of embeddings and Transformer blocks.

    A subclass creates its layers and passes them on. Each becomes an attribute of the same name, which is `None` if
    there is no such layer.

    Args:
        settings: Dict of the arguments of the subclass's constructor in order. They become attributes and the config.
        token_embedding: Layer from token ids to vectors, to which those of positions, segments and languages are added.
        blocks: List of `TransformerBlock`s in order. One that occurs several times shares its weights (ALBERT).
        language: Integer. The language of all tokens. `None` for `language_ids` as an input.
        embeddings_norm: Layer, applied to the sum of the embeddings, before the dropout and the projection.
        block_inputs: Layer from the embeddings to a dict of keyword arguments for every block, such as
            `RotaryPositions`, or a list of one layer for each block. `step` also passes it `start` and, if it accepts
            it, `num_keys`.
        pooler: Layer from the first token's vector to `pooled_output`.
        segment_ids: Boolean. Whether `segment_ids` is an input. Otherwise every token is in segment 0.
        token_scale: Float. Factor of the token embeddings.
        further_inputs: Tuple of strings, names of further inputs of any of these encoders: `"attention_mask"`
            `[batch, length, length]`, 1 where a token sees another in addition to the other masks, see
            `layers.attention_pattern`; and `"positions"` `[batch, length]`, in place of 0, 1, 2, ...
    """

    def __init__(
        self,
        settings,
        token_embedding,
        blocks,
        *,
        segment_ids=True,
        further_inputs=(),
        pooling=None,
        normalize=False,
        dtype=None,
        name=None,
        trainable=True,
        **layers,
    ):
        layers = StackLayers(token_embedding, blocks, **layers, dtype=dtype)
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] if layers.segment_embedding is not None and segment_ids else []
        names += ["language_ids"] if layers.language_embedding is not None and layers.language is None else []
        names += _checked_inputs(further_inputs, layers.position_embedding)
        shapes = {"attention_mask": (None, None)}
        inputs = {name: keras.Input(shapes.get(name, (None,)), dtype="int32", name=name) for name in names}
        masks = {name: inputs[name] for name in MASKS if name in inputs}
        outputs, hidden_states = run_blocks(layers, embed(layers, inputs), **masks)
        settings = {**settings, "further_inputs": list(further_inputs)} if further_inputs else settings
        options = {"pooling": pooling, "normalize": normalize, "name": name, "trainable": trainable}
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

    def attention_weights(self, inputs: Mapping) -> dict:
        options = {"attention_mask": inputs["attention_mask"]} if "attention_mask" in self.input else {}
        return {"encoder": run_and_record(self, inputs, **options)[0]}

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
        if segment_ids is not None and self.segment_embedding is None:
            raise ValueError(
                "`segment_ids` can only be passed to an encoder with segments. Leave them out. "
                f"Received: segment_ids of type {type(segment_ids).__name__} for a `{type(self).__name__}`"
            )
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
