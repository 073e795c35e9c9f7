"""An encoder-decoder of two pretrained encoders (Ramachandran et al. 2017; Rothe et al. 2020)."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import dense_on
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.stack import EMBEDDINGS, TransformerStack, decodes_with_cache
from keras_transfer.layers import (
    LayerNormalization,
    MultiHeadAttention,
    TransformerBlock,
    replaced_weights,
    serialize_activation,
)

_SELF = ("attention", "attention_norm", "feed_forward", "feed_forward_norm")  # A pretrained block has these.
_AROUND = ("attention_residual", "feed_forward_residual", "beside", "prompt")  # These may have adapters.
_CROSS = ("cross_attention", "cross_attention_norm", "cross_attention_residual")


@keras.saving.register_keras_serializable(package="keras_transfer")
class ComposedEncoderDecoder(EncoderDecoder):
    """An encoder-decoder whose halves are two encoders, with new cross-attention in the blocks of the decoder.

    Use `EncoderDecoder.from_encoders` for pretrained ones. The decoder has copies of the layers of its encoder, whose
    tokens see only earlier ones. If they could see later ones before, as in BERT, a dense layer with a norm precedes
    the logits, as in the head of a masked language model. If the widths differ, a new dense layer projects what the
    encoder returns.

    `layer_groups` has the new layers above all others, below the head, so that gradual unfreezing begins with them, and
    layer-wise rates are highest for them.

    Args:
        encoder: `TransformerStack`. The model continues its graph and shares its weights.
        decoder: `TransformerStack`, of which the decoder is a copy. Defaults to `None`, the encoder.
        tied: Boolean. Whether the decoder shares all layers with the encoder except for the new ones. Defaults to
            `False`.
        output_activation: String or callable. Activation of the dense layer before the logits. Defaults to `None`, that
            of the decoder.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`, and `further_inputs`, a tuple of the
            names of further inputs: `"decoder_positions"`.

    Attributes:
        max_sequence_length: Integer. Number of positions that both halves have.
        initial_output_bias: Array [vocabulary]. The biases of the tokens that a `Seq2SeqLM` starts with, or None.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`, and of `decoder_token_ids` and
    `decoder_padding_mask`, each `[batch, decoder_length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `decoder_sequence_output`
    `[batch, decoder_length, hidden_dim]`.

    Raises:
        ValueError: If a half is of another class; if the decoder has adapters or cannot decode with a cache; or if
            `tied=True` and there is another decoder.

    Example:
    ```python
    sizes = {"num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
    encoder = keras_transfer.encoders.BertEncoder(50, hidden_dim=8, **sizes)
    decoder = keras_transfer.encoders.GPT2Encoder(40, hidden_dim=12, **sizes)
    model = keras_transfer.encoders.ComposedEncoderDecoder(encoder, decoder)
    model.encode_context({"token_ids": np.array([[6, 2, 7]]), "padding_mask": np.ones((1, 3), "int32")})
    ```

    Source: https://arxiv.org/abs/1907.12461; https://arxiv.org/abs/1611.02683
    """

    starts_with_padding = False
    initial_output_bias = None

    def __init__(
        self,
        encoder: TransformerStack,
        decoder: TransformerStack | None = None,
        *,
        tied: bool = False,
        output_activation: str | Callable | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        given = encoder if decoder is None else decoder
        rule = "With `tied=True`, the decoder shares the layers of the encoder. Leave `decoder` out."
        if tied:
            expect(given is encoder or given == encoder, rule, decoder=decoder)
        encoder = encoder_of(encoder, "encoder", dtype)
        with replaced_weights():
            source = encoder if tied or decoder is None else encoder_of(decoder, "decoder", dtype)
        check_decoder(source)
        if dtype is None:
            dtype = encoder.dtype_policy
        layers, copies = decoder_layers(source, tied, output_activation, dtype)
        width, own = encoder.output["sequence_output"].shape[-1], source.output["sequence_output"].shape[-1]
        projection = None if width == own else keras.layers.Dense(own, dtype=dtype, name="context_projection")
        settings = {"tied": tied, "output_activation": output_activation}
        super().__init__(settings, encoder, layers, context_projection=projection, dtype=dtype, **kwargs)
        if not isinstance(given, dict):
            for old, new in copies:
                for value, variable in zip(old.weights, new.weights, strict=True):
                    variable.assign(value)
        config = given if isinstance(given, dict) else keras.saving.serialize_keras_object(source)
        config = None if tied else config
        object.__setattr__(self, "decoder_config", config)  # Keras must not track the dict.
        self.attached.share_blocks(lambda: None)  # The config contains the encoder with its adapters.
        lengths = [getattr(half, "max_sequence_length", None) for half in (encoder, source)]
        self.max_sequence_length = min((length for length in lengths if length is not None), default=None)
        self.vocabulary_size = encoder.token_embedding.input_dim
        self.output_bias = bool(self.decoder.output_transform)

    # === Layer groups ===

    def new_layers(self) -> list:
        """Returns the layers that come from no pretrained encoder.

        Returns:
            A list of layers: the cross-attention of each block and its normalization, and the projection of the
            context, if any.
        """
        own = {id(block): block for block in self.decoder.blocks}.values()
        layers = [layer for block in own for name in _CROSS if (layer := getattr(block, name)) is not None]
        return layers if self.context_projection is None else [self.context_projection, *layers]

    def block_layers(self, block: keras.layers.Layer) -> list:
        return [layer for part in (*_SELF, *_AROUND) if (layer := getattr(block, part)) is not None]

    def layer_groups(self) -> list:
        groups = super().layer_groups()
        last = [groups.pop()] if self.decoder.output_transform else []
        groups += [("decoder_cross_attention", "other", self.new_layers()), *last]
        new = set(getattr(self.attached.report, "new", ()))
        is_new = [any(weight.path in new for layer in layers for weight in layer.weights) for *_, layers in groups]
        return [(*group, not new) for group, new in zip(groups, is_new)]

    # === Config ===

    def get_config(self):
        activation = self.output_activation
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "decoder": self.decoder_config,
            **super().get_config(),
            "output_activation": serialize_activation(activation) if callable(activation) else activation,
        }


def encoder_of(value, argument, dtype):
    """Returns an encoder, which may be given as its config."""
    if isinstance(value, dict):
        own = {} if dtype is None else {"dtype": keras.dtype_policies.get(dtype)}
        value = keras.saving.deserialize_keras_object({**value, "config": {**value["config"], **own}})
    advice = " Pass its `encoder`." if isinstance(value, EncoderDecoder) else ""
    rule = f"`{argument}` must be a `TransformerStack`, such as `BertEncoder` or `GPT2Encoder`.{advice}"
    expect(isinstance(value, TransformerStack), rule, **{argument: value})
    rule = f"`{argument}` must have no further inputs."
    expect(not value.further_inputs, rule, further_inputs=list(value.further_inputs))
    own = value.dtype_policy.name
    fits = dtype is None or keras.dtype_policies.get(dtype).name == own
    expect(fits, "Both halves must have the `dtype` of the model.", dtype=dtype, **{argument: own})
    return value


def check_decoder(encoder):
    """Raises a `ValueError` if an encoder cannot become a decoder."""
    name = type(encoder).__name__
    rule = (
        "A decoder is a copy of an encoder without adapters. Call `adaptation.merge_adapters` or `remove_adapters` "
        "first."
    )
    expect(not encoder.adapters, rule, encoder=name, adapters=list(encoder.adapters))
    blocks = encoder.blocks
    plain = all(type(block) is TransformerBlock and type(block.attention) is MultiHeadAttention for block in blocks)
    rule = (
        "A decoder must consist of plain blocks that can take one token at a time, as those of `BertEncoder`, "
        "`RobertaEncoder`, `GPT2Encoder` or `TransformerEncoder` can."
    )
    expect(plain and decodes_with_cache(encoder), rule, encoder=name)


def decoder_layers(source, tied, activation, dtype):
    """Returns the layers of the decoder as arguments of `StackLayers`, and a list of `(layer, its copy)`."""
    copies = {}

    def copy(layer):
        if layer is None or tied:
            return layer
        if id(layer) not in copies:
            copies[id(layer)] = layer, _renamed(layer, f"decoder_{layer.name}")
        return copies[id(layer)][1]

    blocks, pairs = {}, []
    for block in source.blocks:
        if id(block) not in blocks:
            new = blocks[id(block)] = _decoder_block(block, tied)
            pairs += [] if tied else [(getattr(block, part), getattr(new, part)) for part in _SELF]
    layers = {name: keras.tree.map_structure(copy, getattr(source, name)) for name in (*EMBEDDINGS, "final_norm")}
    layers |= {
        "blocks": [blocks[id(block)] for block in source.blocks],
        "embeddings_dropout": source.embeddings_dropout.rate,
        "output_dropout": 0.0 if source.output_dropout is None else source.output_dropout.rate,
        "token_scale": source.token_scale,
        "language": source.language,
        "output_transform": () if source.is_causal else _output_transform(source, activation, dtype),
        "is_decoder": True,
    }
    return layers, pairs + list(copies.values())


def _renamed(layer, name, **changes):
    return type(layer).from_config({**layer.get_config(), "name": name, **changes})


def _decoder_block(block, tied):
    """Returns a block with cross-attention: a copy of another, or one that shares its layers."""
    attention = block.attention
    options = {"causal": False, "window": None, "cross_attention": True}
    cross = _renamed(attention, "cross_attention", **options)
    if tied:
        return _SharingBlock(block, cross, name=f"decoder_{block.name}")
    parts = [_renamed(attention, attention.name, causal=True), _renamed(block.feed_forward, block.feed_forward.name)]
    return TransformerBlock(*parts, cross_attention=cross, **_options(block), name=f"decoder_{block.name}")


def _options(block):
    options = {name: getattr(block, name) for name in ("norm", "normalization", "layer_norm_epsilon")}
    return {**options, "dropout": block.dropout.rate, "dtype": block.dtype_policy}


class _SharingBlock(TransformerBlock):
    """A block that has the layers of another, and cross-attention of its own."""

    def __init__(self, block, cross_attention, name):
        object.__setattr__(self, "shared", block)  # The other block is not a part of this one.
        super().__init__(
            block.attention, block.feed_forward, cross_attention=cross_attention, **_options(block), name=name
        )

    def _norm(self, name):
        shared = getattr(self.shared, name)
        return super()._norm(name) if shared is None else shared


def _output_transform(source, activation, dtype):
    """Returns the layers before the logits of a masked language model."""
    if activation is None:
        activation = getattr(source, "activation", "gelu")
    dense = dense_on(source, source.token_embedding.output_dim, activation, dtype=dtype, name="decoder_output_dense")
    epsilon = getattr(source, "layer_norm_epsilon", 1e-12)
    return dense, LayerNormalization(epsilon=epsilon, dtype=dtype, name="decoder_output_norm")
