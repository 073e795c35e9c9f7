"""MPNet: RoBERTa's encoder with relative positions beside the absolute ones (Song et al. 2020)."""

import keras

from keras_transfer.encoders.base import TransformerStack, bert_layers, constructor_settings
from keras_transfer.layers.attention import RelativePositionBias
from keras_transfer.layers.basic import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_transfer")
class MPNetEncoder(TransformerStack):
    """MPNet's encoder: token and position embeddings, post-norm blocks with relative position biases, a pooler.

    All blocks share the biases. There are no segments. The first two rows of the position table are unused, as in
    RoBERTa.

    Args:
        max_sequence_length: Integer. Number of positions, without the two unused ones. Defaults to `512`.
        layer_norm_epsilon: Float. Defaults to `1e-12`.
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dropout, attention_dropout, activation,
            pooler, initializer_range, dtype, **kwargs: See `BertEncoder`.

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
        vocabulary_size,
        *,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        dropout=0.1,
        max_sequence_length=512,
        attention_dropout=None,
        activation="gelu",
        pooler=True,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        layers = bert_layers(settings, dtype, position_offset=2)
        initializer = TruncatedNormal(stddev=initializer_range)
        bias = RelativePositionBias(num_heads, initializer=initializer, dtype=dtype, name="relative_positions")
        super().__init__(settings, **layers, block_inputs=bias, **kwargs)
