"""The dense layer that the heads of some architectures have before their logits."""

import keras

from keras_transfer.encoders.base import dense_on


def hidden_vectors(vectors, encoder, activation, norm):
    """Returns vectors after the hidden layer of a head, or unchanged if it has none.

    Args:
        vectors: Symbolic tensor of shape `[..., dim]`.
        encoder: Encoder of the task.
        activation: String or callable. Activation of the layer. `None` for no layer.
        norm: Boolean. Whether a layer norm follows the layer. If it does, neither of them has a bias.

    Raises:
        ValueError: If there is a norm, but no layer.
    """
    if activation is None and norm:
        raise ValueError("`hidden_norm=True` requires `hidden_activation`. Received: hidden_activation=None")
    if activation is None:
        return vectors
    dense = dense_on(encoder, vectors.shape[-1], activation, use_bias=not norm, name="hidden")
    if not norm:
        return dense(vectors)
    epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
    layer = keras.layers.LayerNormalization(
        epsilon=epsilon, center=False, dtype=encoder.dtype_policy, name="hidden_norm"
    )
    return layer(dense(vectors))
