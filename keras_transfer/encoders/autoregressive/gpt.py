"""OpenAI GPT: the first Transformer that was pretrained from left to right (Radford et al. 2018)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import gpt_layers


@keras.saving.register_keras_serializable(package="keras_transfer")
class GPTEncoder(TransformerStack):
    """GPT's decoder without its head: token and position embeddings, then causal post-norm blocks.

    A token sees only itself and earlier tokens, so that `step` can continue a text with a cache.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        embeddings_dropout: Float between 0 and 1. Dropout rate of the embeddings. Defaults to `None`, the same as
            `dropout`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same as
            `dropout`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu_tanh"`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-5`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        speakers: List of three integers, the ids of the delimiters of dialogues, as for `layers.SpeakerEmbedding`. The
            embedding of its speaker is then added to each token. Defaults to `None`, for other texts.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.GPTEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=32)
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
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
        max_sequence_length: int = 512,
        embeddings_dropout: float | None = None,
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu_tanh",
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        speakers: Sequence[int] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ):
        embeddings_dropout = dropout if embeddings_dropout is None else embeddings_dropout
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        super().__init__(settings, **gpt_layers(settings | kwargs, dtype), **kwargs)
