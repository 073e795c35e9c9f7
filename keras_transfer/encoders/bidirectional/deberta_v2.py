"""DeBERTa v2 and v3: attention to contents and to relative positions (He et al. 2021)."""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import Parts
from keras_transfer.layers import ConvolutionBlock, DisentangledAttention, DistanceEmbedding


@keras.saving.register_keras_serializable(package="keras_transfer")
class DebertaV2Encoder(TransformerStack):
    """DeBERTa's encoder: token embeddings without positions, post-norm blocks with disentangled attention.

    DeBERTa v3 has the same architecture. It is pretrained as ELECTRA is.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of embeddings, residuals and relative positions. Defaults to `0.1`.
        max_sequence_length: Integer. From this distance on, all distances are treated as the same. Defaults to `512`.
        num_buckets: Integer. Number of vectors for the distances in each direction. `0` means one vector for each
            distance. Defaults to `256`.
        conv_kernel_size: Integer. Number of tokens under the kernel of a convolution next to the first block. `0` for
            no convolution. Defaults to `0`.
        conv_activation: String or callable. Activation of the convolution. Defaults to `"tanh"`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same
            as `dropout`.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        distance_norm: Boolean. Whether the vectors of the distances have a layer norm. Defaults to `True`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-7`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.DebertaV2Encoder(
        100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    encoder({"token_ids": np.array([[1, 6, 2]]), "padding_mask": np.ones((1, 3), "int32")})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/2006.03654, https://arxiv.org/abs/2111.09543
    """

    LEARNING_RATES = {384: 5e-5, math.inf: 2e-5}  # He et al. 2021, rounded.

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
        num_buckets: int = 256,
        conv_kernel_size: int = 0,
        conv_activation: str | Callable = "tanh",
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu",
        distance_norm: bool = True,
        layer_norm_epsilon: float = 1e-7,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        initializer = keras.initializers.RandomNormal(stddev=initializer_range)
        parts = Parts(settings | kwargs, dtype, initializer)
        distances = DistanceEmbedding(
            max_sequence_length,
            num_buckets=num_buckets,
            layer_norm_epsilon=layer_norm_epsilon if distance_norm else None,
            initializer=initializer.clone(),
            dtype=dtype,
            name="distances",
        )
        attention = functools.partial(DisentangledAttention, position_dropout=dropout)
        first = {"block": ConvolutionBlock, "kernel_size": conv_kernel_size, "conv_activation": conv_activation}
        blocks = [
            parts.block(i, attention=attention, **(first if conv_kernel_size and i == 0 else {}))
            for i in range(num_layers)
        ]
        super().__init__(
            settings,
            parts.tokens(),
            blocks,
            embeddings_norm=parts.norm("embeddings_norm"),
            embeddings_dropout=dropout,
            block_inputs=distances,
            dtype=dtype,
            **kwargs,
        )
