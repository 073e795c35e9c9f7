"""The layers that some heads have before their logits."""

import numbers

import keras
import numpy as np

from keras_transfer.encoders import dense_on


def hidden_vectors(vectors, encoder, activation, norm, units=None):
    """Returns vectors `[..., dim]` after the hidden layer of a head, or unchanged without an activation.

    If a layer norm follows the layer, neither has a bias. The width of the layer is that of the vectors unless given.
    """
    if activation is None and norm:
        raise ValueError(
            "`hidden_norm=True` requires `hidden_activation`, such as 'gelu'. Received: hidden_activation=None"
        )
    if activation is None:
        return vectors
    dense = dense_on(encoder, units or vectors.shape[-1], activation, use_bias=not norm, name="hidden")
    if not norm:
        return dense(vectors)
    epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
    layer = keras.layers.LayerNormalization(
        epsilon=epsilon, center=False, dtype=encoder.dtype_policy, name="hidden_norm"
    )
    return layer(dense(vectors))


def check_linear_blocks(activation, norm, hidden_dim, hidden_dropout, batch_norm, windows):
    """Raises a `ValueError` if the arguments of a head's hidden layer contradict each other."""
    if hidden_dim is not None and (not isinstance(hidden_dim, numbers.Integral) or hidden_dim < 1):
        raise ValueError(f"`hidden_dim` must be a positive integer. Received: hidden_dim={hidden_dim!r}")
    if activation is None and (hidden_dim is not None or hidden_dropout):
        raise ValueError(
            "`hidden_dim` and `hidden_dropout` require `hidden_activation`, such as 'relu'. "
            f"Received: hidden_dim={hidden_dim!r}, hidden_dropout={hidden_dropout!r}, hidden_activation=None"
        )
    if not isinstance(hidden_dropout, numbers.Real) or not 0 <= hidden_dropout <= 1:
        raise ValueError(f"`hidden_dropout` must be between 0 and 1. Received: hidden_dropout={hidden_dropout!r}")
    if not isinstance(batch_norm, (bool, np.bool_)):
        raise ValueError(f"`batch_norm` must be a boolean. Received: batch_norm={batch_norm!r}")
    if batch_norm and windows is not None:
        raise ValueError(
            "`batch_norm=True` cannot be used with `windows`, since windows that only pad a batch would count in its "
            f"statistics. Received: batch_norm=True, windows={windows!r}"
        )
    if norm and batch_norm:
        raise ValueError(
            "`batch_norm=True` cannot be used with `hidden_norm=True`. Received: hidden_norm=True, batch_norm=True"
        )
