"""DistilBERT: a BERT with half of the blocks, without segments or a pooler (Sanh et al. 2019)."""

import keras

from keras_transfer.encoders.base import TransformerStack, bert_layers, constructor_settings

_EPSILON = 1e-12  # of all layer norms; a checkpoint cannot have another


@keras.saving.register_keras_serializable(package="keras_transfer")
class DistilBertEncoder(TransformerStack):
    """DistilBERT's encoder: token and position embeddings, then post-norm Transformer blocks.

    There is no pooled output. The original classifies with a new dense layer on the first token's vector
    (`pooling="first"`).

    Args:
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dropout, max_sequence_length,
            attention_dropout, activation, initializer_range, dtype, **kwargs: See `BertEncoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.DistilBertEncoder(
        100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    encoder({"token_ids": np.array([[2, 7, 3]]), "padding_mask": np.ones((1, 3), "int32")})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1910.01108
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
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        super().__init__(settings, **bert_layers({"layer_norm_epsilon": _EPSILON, **settings}, dtype), **kwargs)
