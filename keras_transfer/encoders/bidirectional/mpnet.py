"""MPNet: RoBERTa's encoder with relative positions in addition to the absolute ones (Song et al. 2020)."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import bert_layers
from keras_transfer.layers import RelativePositionBias, TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_transfer")
class MPNetEncoder(TransformerStack):
    """MPNet's encoder: token and position embeddings, post-norm blocks with relative position biases, a pooler.

    All blocks share the biases. There are no segments. The first two rows of the position table are unused, as in
    RoBERTa.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of the embeddings and the residuals. Defaults to `0.1`.
        max_sequence_length: Integer. Number of positions, without the two unused ones. Defaults to `512`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same as
            `dropout`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        pooler: Boolean. Whether there is a `pooled_output`, a dense layer with tanh on the first token. Defaults to
            `True`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `pooled_output` `[batch, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.MPNetEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({"token_ids": np.array([[0, 7, 2]]), "padding_mask": np.ones((1, 3), "int32")})["pooled_output"]
    ```

    Source: https://arxiv.org/abs/2004.09297
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
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu",
        pooler: bool = True,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        layers = bert_layers(settings | kwargs, dtype, position_offset=2)
        initializer = TruncatedNormal(stddev=initializer_range)
        bias = RelativePositionBias(num_heads, initializer=initializer, dtype=dtype, name="relative_positions")
        super().__init__(settings, **layers, block_inputs=bias, **kwargs)
