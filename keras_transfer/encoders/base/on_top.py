"""The dense layers on top of an encoder, which are initialized as in its original."""

import keras

from keras_transfer.layers.basic import get_activation


def initializer_on(encoder):
    """Returns the initializer of a dense layer on an encoder."""
    return keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))


def dense_on(encoder, units, activation, **options):
    """Returns a dense layer on an encoder.

    Args:
        encoder: Encoder, or another object with its settings.
        units: Integer.
        activation: String or callable.
        **options: Further arguments of `keras.layers.Dense`. `dtype` defaults to the encoder's.
    """
    options = {"dtype": encoder.dtype_policy, **options}
    return keras.layers.Dense(units, get_activation(activation), kernel_initializer=initializer_on(encoder), **options)
