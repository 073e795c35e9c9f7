"""RoBERTa: BERT without segments (Liu et al. 2019). XLM-R and CamemBERT are the same architecture."""

import keras

from keras_transfer.encoders.base import TransformerStack, bert_layers, constructor_settings


@keras.saving.register_keras_serializable(package="keras_transfer")
class RobertaEncoder(TransformerStack):
    """RoBERTa's encoder: token and position embeddings, post-norm Transformer blocks, a pooler.

    Every token is in the same segment. The first two rows of the position table are unused, as in the original, which
    counts positions from the padding id, 1.

    Args:
        max_sequence_length: Integer. Number of positions, without the two unused ones. Defaults to `512`.
        layer_norm_epsilon: Float. Defaults to `1e-5`.
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dropout, attention_dropout, activation,
            pooler, initializer_range, dtype, **kwargs: See `BertEncoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]` and `pooled_output` `[batch, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.RobertaEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({"token_ids": np.array([[0, 7, 2]]), "padding_mask": np.ones((1, 3), "int32")})["pooled_output"]
    ```
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
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        layers = bert_layers(settings, dtype, num_segments=1, position_offset=2)
        super().__init__(settings, **layers, segment_ids=False, **kwargs)
