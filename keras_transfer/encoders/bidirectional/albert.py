"""ALBERT: one block, applied many times, over narrow embeddings (Lan et al. 2020)."""

import math
from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import bert_layers, make_projection


@keras.saving.register_keras_serializable(package="keras_transfer")
class AlbertEncoder(TransformerStack):
    """ALBERT's encoder: narrow embeddings, a projection, one Transformer block that is applied many times, a pooler.

    The block's weights are one layer group, so gradual unfreezing and layer-wise rates treat it as one.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. How many times the block is applied.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of embeddings and residuals. Defaults to `0.0`, as in the second
            version.
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        num_segments: Integer, at least 1. Number of segments. Defaults to `2`.
        embedding_dim: Integer. Width of the embeddings. Defaults to `128`.
        attention_dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `None`, the same as
            `dropout`.
        activation: String or callable. `"gelu"` in the first version. Defaults to `"gelu_tanh"`, as in the second.
        pooler: Boolean. Whether there is a `pooled_output`, a dense layer with tanh on the first token. Defaults to
            `True`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`; `layer_drop` and `head_dim` of blocks;
            and `further_inputs`, a tuple of the names of further inputs: `"attention_mask"` or `"positions"`.

    Inputs: Dict of `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `pooled_output` `[batch, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.AlbertEncoder(
        100, num_layers=3, num_heads=2, hidden_dim=8, intermediate_dim=16, embedding_dim=4
    )
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["pooled_output"]
    ```

    Source: https://arxiv.org/abs/1909.11942
    """

    LEARNING_RATES = {math.inf: 2e-5}  # Lan et al. 2019: 1e-5 to 5e-5, one set of weights for all blocks.

    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.0,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        embedding_dim: int = 128,
        attention_dropout: float | None = None,
        activation: str | Callable = "gelu_tanh",
        pooler: bool = True,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        layers = bert_layers({**settings, **kwargs, "num_layers": 1}, dtype, num_segments)
        layers["blocks"] = layers["blocks"] * num_layers
        layers["embeddings_projection"] = make_projection(settings, dtype)
        super().__init__(settings, **layers, **kwargs)
