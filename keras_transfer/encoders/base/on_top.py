"""The dense layers that are put on an encoder, which begin as those of its original do."""

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
        **options: Further arguments of `keras.layers.Dense`. `dtype` defaults to that of the encoder.
    """
    options = {"dtype": encoder.dtype_policy, **options}
    return keras.layers.Dense(units, get_activation(activation), kernel_initializer=initializer_on(encoder), **options)
