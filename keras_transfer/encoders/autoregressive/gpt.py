"""OpenAI GPT: the first Transformer that was pretrained from left to right (Radford et al. 2018)."""

import keras

from keras_transfer.encoders.base import TransformerStack, constructor_settings, gpt_layers


@keras.saving.register_keras_serializable(package="keras_transfer")
class GPTEncoder(TransformerStack):
    """GPT's decoder without its head: token and position embeddings, then causal post-norm blocks.

    A token sees only itself and earlier tokens, so that `step` can continue a text with a cache.

    Args:
        max_sequence_length: Integer. Number of positions. Defaults to `512`.
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dropout, embeddings_dropout,
            attention_dropout, activation, layer_norm_epsilon, initializer_range, speakers, dtype, **kwargs: See
            `GPT2Encoder`.

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
        vocabulary_size,
        *,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        dropout=0.1,
        max_sequence_length=512,
        embeddings_dropout=None,
        attention_dropout=None,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        speakers=None,
        dtype=None,
        **kwargs,
    ):
        embeddings_dropout = dropout if embeddings_dropout is None else embeddings_dropout
        attention_dropout = dropout if attention_dropout is None else attention_dropout
        settings = constructor_settings(locals())
        super().__init__(settings, **gpt_layers(settings, dtype), **kwargs)
