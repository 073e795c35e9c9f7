"""The head of masked language models: a dense layer with a norm, and the token embeddings as output embeddings."""

import keras

from keras_transfer.encoders.base import dense_on
from keras_transfer.layers.embeddings import OutputEmbeddings
from keras_transfer.layers.heads import TakePositions


class TokenHead:
    """The layers from token vectors to logits at some positions.

    Args:
        encoder: Encoder.
        table: Its token embedding layer.
        activation: Activation of the dense layer. Defaults to `None`, the encoder's.
        layer_norm_epsilon: Float. Epsilon of the layer norm. Defaults to `None`, the encoder's.
        use_bias: Boolean. Whether the dense layer and the norm have a bias. Defaults to `True`.

    Call arguments:
        sequence: Symbolic vectors `[batch, length, dim]`.
        positions: Symbolic integers `[batch, places]`.
    """

    def __init__(self, encoder, table, activation=None, layer_norm_epsilon=None, use_bias=True):
        if activation is None:
            activation = getattr(encoder, "activation", "gelu")
        if layer_norm_epsilon is None:
            layer_norm_epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
        self.activation, self.layer_norm_epsilon = activation, layer_norm_epsilon
        dtype = encoder.dtype_policy
        self.take = TakePositions(dtype=dtype, name="masked_tokens")
        self.dense = dense_on(encoder, table.output_dim, activation, use_bias=use_bias, name="head_dense")
        self.norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, center=use_bias, dtype=dtype, name="head_norm"
        )
        self.logits = OutputEmbeddings(table, use_bias=True, dtype=dtype, name="logits")

    def __call__(self, sequence, positions):
        return self.logits(self.norm(self.dense(self.take(sequence, positions))))


def check_masks(preprocessor):
    """Raises a `ValueError` if a preprocessor (unless it is `None`) cannot mask tokens."""
    if preprocessor is not None and not hasattr(preprocessor, "encode_masked"):
        raise ValueError(
            "`preprocessor` must be a `text.TokenPreprocessor` with a mask token. "
            f"Received: {type(preprocessor).__name__}"
        )
