"""BART (Lewis et al. 2020) and the encoder-decoders that differ from it in norms and positions."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import Parts
from keras_transfer.layers import SinusoidalPositions

_EPSILON = 1e-5
_OF_DECODER = ("num_decoder_layers", "num_decoder_heads", "decoder_intermediate_dim")


@keras.saving.register_keras_serializable(package="keras_transfer")
class BartEncoder(TransformerStack):
    """BART's encoder: token and position embeddings with a norm, and Transformer blocks.

    The first two rows of the position table are unused, as in RoBERTa.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of the embeddings and the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `1024`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.0`.
        activation_dropout: Float between 0 and 1. Dropout rate within the feed-forward networks. Defaults to `0.0`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        scale_embedding: Boolean. Whether the token embeddings are multiplied by the root of `hidden_dim`. Defaults to
            `False`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        norm: String, `"post"` as in BART, or `"pre"` with a norm after the last block. Defaults to `"post"`.
        positions: String, `"learned"` as in BART, or `"sinusoidal"`. Defaults to `"learned"`.
        embeddings_norm: Boolean. Whether there is a norm after the embeddings. Defaults to `True`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.BartEncoder(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({"token_ids": np.array([[0, 6, 2]]), "padding_mask": np.ones((1, 3), "int32")})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1910.13461
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        max_sequence_length: int = 1024,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation: str | Callable = "gelu",
        scale_embedding: bool = False,
        initializer_range: float = 0.02,
        norm: str = "post",
        positions: str = "learned",
        embeddings_norm: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ):
        settings = constructor_settings(locals())
        initializer = keras.initializers.RandomNormal(stddev=initializer_range)
        table = keras.layers.Embedding(vocabulary_size, hidden_dim, initializer, dtype=dtype, name="token_embedding")
        super().__init__(settings, table, **_layers(settings | kwargs, dtype), dtype=dtype, **kwargs)


@keras.saving.register_keras_serializable(package="keras_transfer")
class Bart(EncoderDecoder):
    """BART: the encoder, and a decoder with the same token embeddings.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        num_decoder_layers: Integer. Number of blocks of the decoder. Defaults to `None`, the same as `num_layers`.
        num_decoder_heads: Integer. Number of heads of the decoder. Defaults to `None`, the same as `num_heads`.
        decoder_intermediate_dim: Integer. Width of the feed-forward networks of the decoder. Defaults to `None`, the
            same as `intermediate_dim`.
        dropout: Float between 0 and 1. Dropout rate of the embeddings and the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `1024`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.0`.
        activation_dropout: Float between 0 and 1. Dropout rate within the feed-forward networks. Defaults to `0.0`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        scale_embedding: Boolean. Whether the token embeddings are multiplied by the root of `hidden_dim`. Defaults to
            `False`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`, and `further_inputs`, a tuple of the
            names of further inputs: `"decoder_positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`, and of `decoder_token_ids` and
    `decoder_padding_mask`, each `[batch, decoder_length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `decoder_sequence_output`
    `[batch, decoder_length, hidden_dim]`.

    Example:
    ```python
    model = keras_transfer.encoders.Bart(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    ids = {"token_ids": np.array([[0, 6, 2]]), "decoder_token_ids": np.array([[2, 0, 7]])}
    model({**ids, **{name.replace("token_ids", "padding_mask"): np.ones_like(value) for name, value in ids.items()}})
    ```

    Source: https://arxiv.org/abs/1910.13461
    """

    layout = {"norm": "post", "positions": "learned", "embeddings_norm": True}
    output_bias = True
    checkpoints_have_start = True  # It differs: `</s>` in BART, padding in Pegasus, a language in mBART.
    default_start = 2

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_decoder_layers: int | None = None,
        num_decoder_heads: int | None = None,
        decoder_intermediate_dim: int | None = None,
        dropout: float = 0.1,
        max_sequence_length: int = 1024,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation: str | Callable = "gelu",
        scale_embedding: bool = False,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        num_decoder_heads = num_heads if num_decoder_heads is None else num_decoder_heads
        decoder_intermediate_dim = intermediate_dim if decoder_intermediate_dim is None else decoder_intermediate_dim
        settings = constructor_settings(locals())
        own = {name: value for name, value in settings.items() if name not in _OF_DECODER} | self.layout
        encoder = BartEncoder(**own, dtype=dtype, name="encoder")
        sizes = dict(zip(("num_layers", "num_heads", "intermediate_dim"), map(settings.get, _OF_DECODER)))
        super().__init__(settings, encoder, _layers({**own, **sizes}, dtype, decoder=True), dtype=dtype, **kwargs)


@keras.saving.register_keras_serializable(package="keras_transfer")
class BartSingleText(Bart):
    """BART over a single text, which is the input of both its encoder and its decoder: for classification and
    questions.

    The decoder's input is the text moved to the right by a start token, and its vectors are the outputs. The vector of
    the last token, `</s>`, depends on all others, so the published classifiers use `pooling="last"`. `BartEncoder` is
    half as large, but its checkpoints have no such heads.

    Args:
        vocabulary_size: Integer. Number of tokens.
        start_token: Integer. The token that the decoder begins with. Defaults to `2`, `</s>`.
        **kwargs: Arguments of `Bart`. `num_layers`, `num_heads`, `hidden_dim` and `intermediate_dim` are required.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` of the decoder.

    Example:
    ```python
    encoder = keras_transfer.encoders.BartSingleText(
        50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    model = keras_transfer.tasks.TextClassifier(encoder, num_classes=2, pooling="last", hidden_activation="tanh")
    ```

    Source: Lewis et al. 2020, "BART", section 3.1. https://arxiv.org/abs/1910.13461
    """

    def __init__(self, vocabulary_size: int, *, start_token: int = 2, **kwargs: Any):
        super().__init__(vocabulary_size, start_token=start_token, **kwargs)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MBart(Bart):
    """mBART: BART with pre-norm blocks and a norm after each half, for many languages (Liu et al. 2020).

    The arguments are those of `Bart`.

    Example:
    ```python
    model = keras_transfer.encoders.MBart(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model.encode_context({"token_ids": np.array([[6, 2, 7]]), "padding_mask": np.ones((1, 3), "int32")})
    ```

    Source: https://arxiv.org/abs/2001.08210
    """

    layout = {"norm": "pre", "positions": "learned", "embeddings_norm": True}
    default_start = None


@keras.saving.register_keras_serializable(package="keras_transfer")
class Pegasus(Bart):
    """Pegasus: pre-norm blocks, sinusoidal positions, no norm after the embeddings (Zhang et al. 2020).

    The arguments are those of `Bart`.

    Example:
    ```python
    model = keras_transfer.encoders.Pegasus(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model.encode_context({"token_ids": np.array([[6, 7, 1]]), "padding_mask": np.ones((1, 3), "int32")})
    ```

    Source: https://arxiv.org/abs/1912.08777
    """

    layout = {"norm": "pre", "positions": "sinusoidal", "embeddings_norm": False}
    default_start = 0


@keras.saving.register_keras_serializable(package="keras_transfer")
class Marian(Bart):
    """Marian's Transformer for translation: sinusoidal positions, no norm after the embeddings.

    The arguments are those of `Bart`.

    Example:
    ```python
    model = keras_transfer.encoders.Marian(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model.encode_context({"token_ids": np.array([[6, 7, 0]]), "padding_mask": np.ones((1, 3), "int32")})
    ```

    Source: https://arxiv.org/abs/1804.00344
    """

    layout = {"norm": "post", "positions": "sinusoidal", "embeddings_norm": False}
    default_start = 58100


def _layers(settings, dtype, decoder=False):
    """Returns the layers of one half, whose sizes `settings` has, for `TransformerStack`, without token embeddings."""
    prefix, dropout = "decoder_" if decoder else "", settings["dropout"]
    initializer = keras.initializers.RandomNormal(stddev=settings["initializer_range"])
    parts = Parts({"layer_norm_epsilon": _EPSILON, **settings}, dtype, initializer, prefix=prefix)
    blocks = parts.blocks(
        causal=decoder,
        cross_attention=decoder,
        activation_dropout=settings["activation_dropout"],
        norm=settings["norm"],
    )
    if settings["positions"] == "learned":
        positions = parts.positions(offset=2)
    else:
        name = f"{prefix}position_embedding"
        positions = SinusoidalPositions(settings["max_sequence_length"], dtype=dtype, name=name)
    return {
        "blocks": blocks,
        "position_embedding": positions,
        "token_scale": settings["hidden_dim"] ** 0.5 if settings["scale_embedding"] else None,
        "embeddings_norm": parts.norm("embeddings_norm") if settings["embeddings_norm"] else None,
        "embeddings_dropout": dropout,
        "final_norm": parts.norm("final_norm") if settings["norm"] == "pre" else None,
    }
