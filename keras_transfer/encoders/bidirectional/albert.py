"""ALBERT: one block, applied many times, over narrow embeddings (Lan et al. 2020)."""

import keras

from keras_transfer.encoders.base import TransformerStack, bert_layers, constructor_settings, make_projection


@keras.saving.register_keras_serializable(package="keras_transfer")
class AlbertEncoder(TransformerStack):
    """ALBERT's encoder: narrow embeddings, a projection, one Transformer block that is applied many times, a pooler.

    The block's weights are one layer group, so gradual unfreezing and layer-wise rates treat it as one.

    Args:
        num_layers: Integer. How many times the block is applied.
        dropout: Float between 0 and 1. Dropout rate of embeddings and residuals. Defaults to `0.0`, as in the second
            version.
        embedding_dim: Integer. Width of the embeddings. Defaults to `128`.
        activation: String or callable. `"gelu"` in the first version. Defaults to `"gelu_tanh"`, as in the second.
        vocabulary_size, num_heads, hidden_dim, intermediate_dim, max_sequence_length, attention_dropout, pooler,
            layer_norm_epsilon, initializer_range, dtype, **kwargs: See `BertEncoder`.
        num_segments: Integer, at least 1. Number of segments. Defaults to `2`.

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

    def __init__(
        self,
        vocabulary_size,
        *,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        dropout=0.0,
        max_sequence_length=512,
        num_segments=2,
        embedding_dim=128,
        attention_dropout=None,
        activation="gelu_tanh",
        pooler=True,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        layers = bert_layers({**settings, "num_layers": 1}, dtype, num_segments)
        layers["blocks"] = layers["blocks"] * num_layers
        layers["embeddings_projection"] = make_projection(hidden_dim, initializer_range, dtype)
        super().__init__(settings, **layers, **kwargs)
