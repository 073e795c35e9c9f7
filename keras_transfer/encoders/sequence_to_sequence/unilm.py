"""One encoder that reads a source and writes its target, with an attention mask (UniLM)."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.encoders.sequence_to_sequence.composed import check_decoder, decoder_layers, encoder_of
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.stack import TransformerStack, embed, run_and_record, run_blocks, step, takes_positions
from keras_transfer.layers import TakeQueryStream, attention_pattern


@keras.saving.register_keras_serializable(package="keras_transfer")
class UniLM(EncoderDecoder):
    """An encoder as an encoder-decoder: the target continues the source in one row (UniLM, Dong et al. 2019).

    A token of the source sees the source, in both directions. A token of the target, which has the second segment, sees
    the source, itself and earlier tokens of the target. All layers are those of the encoder, without cross-attention.
    If its tokens are not causal, a dense layer with a norm precedes the logits, as in the head of a masked language
    model, and is new.

    A `Seq2SeqLM` over this model learns the next token at each position of a target, as a prefix language model (Raffel
    et al. 2020, section 3.2.1). UniLM itself hides tokens of the target and predicts these.

    Args:
        encoder: `TransformerStack` with absolute positions, such as `BertEncoder` or `TransformerEncoder`. The model
            shares its weights.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, that of the encoder.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Attributes:
        max_sequence_length: Integer. Half of the encoder's number of positions, which source and target share.

    Inputs: Dict of the encoder's inputs, each `[batch, length]`, and of `decoder_token_ids` and
    `decoder_padding_mask`, each `[batch, decoder_length]`.

    Outputs: Dict of the encoder's outputs and of `decoder_sequence_output` `[batch, decoder_length, hidden_dim]`.

    Raises:
        ValueError: If `encoder` is of another class, if it has adapters, further inputs, other positions or a window,
            or if it cannot decode with a cache.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
    encoder = keras_transfer.encoders.UniLM(keras_transfer.encoders.BertEncoder(len(vocabulary), **sizes))
    model = keras_transfer.tasks.Seq2SeqLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-2))
    model.fit(["a b c", "b c"], ["c b a", "c b"], epochs=2)
    model.generate(["a b"], max_new_tokens=4)
    ```

    Source: https://arxiv.org/abs/1905.03197
    """

    starts_with_padding = False

    def __init__(self, encoder: TransformerStack, *, dtype: Any = None, **kwargs: Any):
        encoder = encoder_of(encoder, "encoder", dtype)
        check_decoder(encoder)
        rule = (
            "The encoder must have absolute positions and no other ones, as `BertEncoder` and `TransformerEncoder` do."
        )
        expect(takes_positions(encoder.position_embedding) and encoder.block_inputs is None, rule, encoder=encoder)
        windows = {block.attention.window for block in encoder.blocks} - {None}
        expect(not windows, "The encoder must have no window.", encoder=encoder, window=windows)
        dtype = encoder.dtype_policy if dtype is None else dtype
        layers, _ = decoder_layers(encoder, True, None, dtype)
        super().__init__({}, encoder, {**layers, "blocks": encoder.blocks}, dtype=dtype, **kwargs)
        self.attached.share_blocks(lambda: None)  # The config contains the encoder.
        self.blocks = encoder.blocks
        positions = getattr(encoder, "max_sequence_length", None)
        self.max_sequence_length = None if positions is None else positions // 2
        self.vocabulary_size = encoder.token_embedding.input_dim
        self.output_bias = bool(self.decoder.output_transform)

    @staticmethod
    def connect(encoder, decoder, inputs, sequence, dtype):
        given = {**encoder.input, **{f"decoder_{name}": value for name, value in inputs.items()}}
        both = _Both(_has_segments(encoder), name="both")(given)
        masks = {name: both[name] for name in ("padding_mask", "attention_mask")}
        outputs, states = run_blocks(encoder, embed(encoder, both), **masks)
        targets = TakeQueryStream(dtype=dtype, name="targets")(outputs["sequence_output"], inputs["token_ids"])
        for layer in decoder.output_transform:
            targets = layer(targets)
        return {"sequence_output": targets}, states

    def layer_groups(self) -> list:
        return [(*group, group[0] != "decoder_output_transform") for group in super().layer_groups()]

    def attention_weights(self, inputs: Mapping) -> dict:
        both, length = _Both(_has_segments(self.encoder))(inputs), ops.shape(inputs["token_ids"])[1]
        found, _ = run_and_record(self.encoder, both, attention_mask=both["attention_mask"])
        places = {"encoder": (slice(length), slice(length)), "decoder": (slice(length, None), slice(length, None))}
        places["cross"] = slice(length, None), slice(length)
        return {name: [weights[:, :, rows, keys] for weights in found] for name, (rows, keys) in places.items()}

    # === Decoding with a cache ===

    def encode_context(self, inputs: Mapping) -> dict:
        ids, mask = (ops.convert_to_tensor(inputs[name]) for name in ("token_ids", "padding_mask"))
        empty = self.encoder.empty_cache(*ops.shape(ids))
        return {"cache": self.encoder.step(ids, empty, 0, padding_mask=mask)[1], "padding_mask": mask}

    def _step(self, token_ids, cache, start, padding_mask, first, context):
        token_ids = ops.convert_to_tensor(token_ids)
        (batch, new), prompts = ops.shape(token_ids), ops.shape(context["padding_mask"])[0]
        row = ops.arange(batch) // (batch // prompts)  # Several sequences may share a source.
        context = keras.tree.map_structure(lambda values: ops.take(values, row, axis=0), context)
        known = ops.cast(context["padding_mask"], "int32")
        length = ops.shape(known)[1]
        first = ops.zeros((batch,), "int32") if first is None else first
        real = ops.arange(ops.shape(cache[0]["attention"][0])[2]) >= first[:, None]
        real = real if padding_mask is None else ops.logical_and(real, ops.cast(padding_mask, "bool"))
        positions = ops.sum(known, axis=1, keepdims=True) + (start - first)[:, None] + ops.arange(new)
        joint = keras.tree.map_structure(lambda *parts: ops.concatenate(parts, axis=2), context["cache"], [*cache])
        vectors, joint = step(
            *(self.decoder, token_ids, joint, length + start),
            padding_mask=ops.concatenate([ops.cast(known, "bool"), real], axis=1),
            segment_ids=ops.full_like(token_ids, int(_has_segments(self.encoder))),
            positions=ops.maximum(positions, 0),
        )
        # The source stays out of the cache. Loops need the shape that it had.
        kept = [values[:, :, length:] for values in keras.tree.flatten(joint)]
        kept = [ops.reshape(values, ops.shape(old)) for values, old in zip(kept, keras.tree.flatten([*cache]))]
        return vectors, keras.tree.pack_sequence_as([*cache], kept)

    def get_config(self):
        return {"encoder": keras.saving.serialize_keras_object(self.encoder), **super().get_config()}


class _Both(keras.layers.Layer):
    """The tokens of source and target in one row, as the inputs of an encoder."""

    def __init__(self, has_segments, **kwargs):
        super().__init__(dtype="int32", **kwargs)
        self.has_segments = has_segments

    def call(self, inputs):
        halves = {name: ops.cast(value, "int32") for name, value in inputs.items()}
        ids, mask = (
            ops.concatenate([halves[name], halves[f"decoder_{name}"]], axis=1) for name in ("token_ids", "padding_mask")
        )
        source, target = ops.zeros_like(halves["token_ids"]), ops.ones_like(halves["decoder_token_ids"])
        part = ops.concatenate([source, target], axis=1)
        segments = ops.concatenate([halves.get("segment_ids", source), target * int(self.has_segments)], axis=1)
        return {
            "token_ids": ids,
            "padding_mask": mask,
            "segment_ids": segments,
            "positions": ops.maximum(ops.cumsum(mask, axis=1) - 1, 0),  # A target follows its source without a gap.
            "attention_mask": attention_pattern("sequence_to_sequence", mask, part),
        }


def _has_segments(encoder):
    """Returns whether an encoder has a segment for targets."""
    return getattr(encoder.segment_embedding, "input_dim", 0) > 1
