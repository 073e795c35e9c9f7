"""ELECTRA: BERT's encoder with embeddings of another width (Clark et al. 2020)."""

import math
from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import bert_layers, make_projection


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElectraEncoder(TransformerStack):
    """ELECTRA's encoder, of the discriminator or of the generator: embeddings, a projection, Transformer blocks.

    The embeddings are projected to the width of the blocks if it differs from theirs. There is no pooled output. The
    original classifies with two dense layers on the first token's vector (`pooling="first"`).

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of the embeddings and the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        num_segments: Integer, at least 1. Number of segments. Defaults to `2`.
        embedding_dim: Integer. Width of the embeddings. Small models and generators share the embeddings of a larger
            model. Defaults to `None`, the same as `hidden_dim`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same as
            `dropout`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.ElectraEncoder(
        100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, embedding_dim=4
    )
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/2003.10555
    """

    LEARNING_RATES = {256: 3e-4, 768: 1e-4, math.inf: 5e-5}  # Clark et al. 2020, table 7.

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
        num_segments: int = 2,
        embedding_dim: int | None = None,
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        embedding_dim = hidden_dim if embedding_dim is None else embedding_dim
        settings = constructor_settings(locals())
        layers = bert_layers(settings | kwargs, dtype, num_segments)
        if embedding_dim != hidden_dim:
            layers["embeddings_projection"] = make_projection(settings, dtype)
        super().__init__(settings, **layers, **kwargs)
