"""XLM: BERT with an embedding of the language of each token (Conneau and Lample 2019)."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import bert_layers
from keras_transfer.layers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_transfer")
class XlmEncoder(TransformerStack):
    """XLM's encoder: token, position and language embeddings with a norm, and post-norm Transformer blocks.

    Each token has a language, so that a row can contain a text and its translation. With
    `further_inputs=["positions"]`, positions are an input and can restart at the translation. Texts of one language
    need neither: `XlmEncoder.from_pretrained(folder, language=2)`.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks. Defaults to `None`, four times `hidden_dim`, the
            only width that checkpoints can have.
        num_languages: Integer. Rows of the table of languages. `1` for no table. Defaults to `1`.
        language: Integer. The language of all tokens, in place of the input `language_ids`. Defaults to `None`.
        dropout: Float between 0 and 1. Dropout rate of the embeddings and the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.1`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        causal: Boolean. Whether a token sees only itself and earlier tokens. Defaults to `False`.
        train_positions: Boolean. Whether the position table trains. Defaults to `True`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids`, `padding_mask` and, if there are languages, `language_ids`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Raises:
        ValueError: If `language` is not one of the languages.

    Example:
    ```python
    encoder = keras_transfer.encoders.XlmEncoder(50, num_layers=2, num_heads=2, hidden_dim=8, num_languages=2)
    inputs = {"token_ids": np.array([[1, 7, 1, 9]]), "language_ids": np.array([[0, 0, 1, 1]])}
    encoder({**inputs, "padding_mask": np.ones((1, 4), "int32")})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1901.07291
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int | None = None,
        num_languages: int = 1,
        language: int | None = None,
        dropout: float = 0.1,
        max_sequence_length: int = 512,
        attention_dropout: float = 0.1,
        activation: str | Callable = "gelu",
        causal: bool = False,
        train_positions: bool = True,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        intermediate_dim = 4 * hidden_dim if intermediate_dim is None else intermediate_dim
        settings = constructor_settings(locals())
        rule = f"`language` must be from 0 to {num_languages - 1}, one of the languages."
        expect(language is None or 0 <= language < num_languages, rule, language=language)
        languages = None
        if num_languages > 1:
            initializer = TruncatedNormal(stddev=initializer_range)
            languages = keras.layers.Embedding(
                num_languages, hidden_dim, initializer, dtype=dtype, name="language_embedding"
            )
        layers = bert_layers(settings | kwargs, dtype)
        layers["position_embedding"].trainable = train_positions
        super().__init__(settings, **layers, language_embedding=languages, language=language, **kwargs)
