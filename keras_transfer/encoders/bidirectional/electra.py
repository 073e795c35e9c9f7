"""ELECTRA: BERT's encoder with embeddings of another width (Clark et al. 2020)."""

import keras

from keras_transfer.encoders.base import TransformerStack, bert_layers, constructor_settings, make_projection


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElectraEncoder(TransformerStack):
    """ELECTRA's encoder, of the discriminator or of the generator: embeddings, a projection, Transformer blocks.

    The embeddings are projected to the width of the blocks if it differs from theirs. There is no pooled output. The
    original classifies with two dense layers on the first token's vector (`pooling="first"`).

    Args:
        embedding_dim: Integer. Width of the embeddings. Small models and generators share the embeddings of a larger
            model. Defaults to `None`, the same as `hidden_dim`.
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dropout, max_sequence_length,
            attention_dropout, activation, layer_norm_epsilon, initializer_range, dtype, **kwargs: See `BertEncoder`.
        num_segments: Integer, at least 1. Number of segments. Defaults to `2`.

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
        num_segments=2,
        embedding_dim=None,
        attention_dropout=None,
        activation="gelu",
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        embedding_dim = hidden_dim if embedding_dim is None else embedding_dim
        settings = constructor_settings(locals())
        layers = bert_layers(settings, dtype, num_segments)
        if embedding_dim != hidden_dim:
            layers["embeddings_projection"] = make_projection(hidden_dim, initializer_range, dtype)
        super().__init__(settings, **layers, **kwargs)
