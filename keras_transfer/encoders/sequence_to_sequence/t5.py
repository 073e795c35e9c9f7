"""T5: an encoder-decoder with relative positions for texts in, texts out (Raffel et al. 2020)."""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import Parts
from keras_transfer.layers import FeedForward, GatedFeedForward, MultiHeadAttention, RelativePositionBias


@keras.saving.register_keras_serializable(package="keras_transfer")
class T5Encoder(TransformerStack):
    """T5's encoder: token embeddings, pre-norm blocks with RMS norms and shared relative position biases, a final norm.

    There are no biases, no absolute positions, and the scores of attention are not scaled.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        head_dim: Integer. Width of a head of attention. Defaults to `64`.
        gated: Boolean. Whether the feed-forward networks are gated, as in T5 1.1, FLAN-T5 and mT5. Defaults to `False`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"relu"`.
        dropout: Float between 0 and 1. All dropout rates. Defaults to `0.1`.
        num_buckets: Integer. Number of buckets of relative positions. Defaults to `32`.
        max_distance: Integer. The smallest distance of the last bucket. Defaults to `128`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-6`.
        initializer_factor: Float. Factor of the initial weights. Defaults to `1.0`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` of its blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.T5Encoder(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({"token_ids": np.array([[5, 6, 1]]), "padding_mask": np.ones((1, 3), "int32")})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1910.10683
    """

    LEARNING_RATES = {math.inf: 3e-4}  # Its vectors are not normalized between blocks; AdamW in place of Adafactor.

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        head_dim: int = 64,
        gated: bool = False,
        activation: str | Callable = "relu",
        dropout: float = 0.1,
        num_buckets: int = 32,
        max_distance: int = 128,
        layer_norm_epsilon: float = 1e-6,
        initializer_factor: float = 1.0,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())
        table = keras.layers.Embedding(
            vocabulary_size,
            hidden_dim,
            keras.initializers.RandomNormal(stddev=initializer_factor),
            dtype=dtype,
            name="token_embedding",
        )
        super().__init__(settings, table, **_layers(settings | kwargs, dtype), dtype=dtype, **kwargs)
        _scale_queries(self.blocks, head_dim)


@keras.saving.register_keras_serializable(package="keras_transfer")
class T5(EncoderDecoder):
    """T5: the encoder, and a decoder with the same token embeddings.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        head_dim: Integer. Width of a head of attention. Defaults to `64`.
        num_decoder_layers: Integer. Number of blocks of the decoder. Defaults to `None`, the same as `num_layers`.
        gated: Boolean. Whether the feed-forward networks are gated, as in T5 1.1, FLAN-T5 and mT5. Defaults to `False`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"relu"`.
        dropout: Float between 0 and 1. All dropout rates. Defaults to `0.1`.
        num_buckets: Integer. Number of buckets of relative positions. Defaults to `32`.
        max_distance: Integer. The smallest distance of the last bucket. Defaults to `128`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-6`.
        initializer_factor: Float. Factor of the initial weights. Defaults to `1.0`.
        scale_outputs: Boolean. Whether the decoder's vectors are multiplied by `hidden_dim ** -0.5` before the token
            embeddings turn them into logits, as in the first T5. Defaults to `True`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`, and `further_inputs`, a tuple of the
            names of further inputs: `"decoder_positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`, and of `decoder_token_ids` and
    `decoder_padding_mask`, each `[batch, decoder_length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `decoder_sequence_output`
    `[batch, decoder_length, hidden_dim]`.

    Example:
    ```python
    model = keras_transfer.encoders.T5(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    ids = {"token_ids": np.array([[5, 6, 1]]), "decoder_token_ids": np.array([[0, 7]])}
    model({**ids, **{name.replace("token_ids", "padding_mask"): np.ones_like(value) for name, value in ids.items()}})
    ```

    Source: https://arxiv.org/abs/1910.10683
    """

    LEARNING_RATES = T5Encoder.LEARNING_RATES

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        head_dim: int = 64,
        num_decoder_layers: int | None = None,
        gated: bool = False,
        activation: str | Callable = "relu",
        dropout: float = 0.1,
        num_buckets: int = 32,
        max_distance: int = 128,
        layer_norm_epsilon: float = 1e-6,
        initializer_factor: float = 1.0,
        scale_outputs: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ):
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        settings = constructor_settings(locals())
        own = {name: value for name, value in settings.items() if name not in ("num_decoder_layers", "scale_outputs")}
        encoder = T5Encoder(**own, dtype=dtype, name="encoder")
        layers = _layers({**settings, "num_layers": num_decoder_layers}, dtype, decoder=True)
        super().__init__(settings, encoder, layers, dtype=dtype, **kwargs)
        _scale_queries(self.decoder.blocks, head_dim)

    @property
    def output_scale(self) -> float | None:  # type: ignore[override]
        """Float or None. Factor of the vectors that the token embeddings turn into logits."""
        return self.hidden_dim**-0.5 if self.scale_outputs else None


def _layers(settings, dtype, decoder=False):
    """Returns the layers of the encoder or the decoder as arguments of `TransformerStack`, without token embeddings."""
    prefix, dropout = "decoder_" if decoder else "", settings["dropout"]
    scale = settings["initializer_factor"] ** 2
    normal = keras.initializers.VarianceScaling(scale, "fan_in", "untruncated_normal")
    parts = Parts(settings, dtype, normal, normalization="rms", prefix=prefix)
    blocks = parts.blocks(
        attention=functools.partial(MultiHeadAttention, use_bias=False, scale=1.0),
        feed_forward=functools.partial(GatedFeedForward if settings["gated"] else FeedForward, use_bias=False),
        activation_dropout=dropout,
        norm="pre",
        causal=decoder,
        cross_attention=decoder,
    )
    return {
        "blocks": blocks,
        "block_inputs": RelativePositionBias(
            settings["num_heads"],
            num_buckets=settings["num_buckets"],
            max_distance=settings["max_distance"],
            initializer=keras.initializers.RandomNormal(stddev=(scale / settings["hidden_dim"]) ** 0.5),
            bidirectional=not decoder,
            dtype=dtype,
            name=f"{prefix}relative_positions",
        ),
        "embeddings_dropout": dropout,
        "final_norm": parts.norm("final_norm"),
        "output_dropout": dropout,
    }


def _scale_queries(blocks, head_dim):
    """Makes the initial queries smaller by the root of `head_dim`, because the scores of attention are not scaled."""
    for block in blocks:
        size = block.attention.num_heads * head_dim
        kernel = block.attention.query_key_value.kernel
        factor = keras.ops.where(keras.ops.arange(kernel.shape[1]) < size, head_dim**-0.5, 1.0)
        kernel.assign(kernel * keras.ops.cast(factor, kernel.dtype))
        if block.cross_attention is not None:
            kernel = block.cross_attention.query.kernel
            kernel.assign(kernel * head_dim**-0.5)
