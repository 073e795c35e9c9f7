"""Activation functions that Keras has only as a flag: they need a name to be part of a config."""

import keras


@keras.saving.register_keras_serializable(package="keras_transfer")
def gelu_tanh(x):
    """GELU by its tanh approximation (Hendrycks & Gimpel 2016, section 2), as GPT-2 and KerasHub use it."""
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation):
    """Returns the function behind `activation`: `"gelu"` (exact), `"gelu_tanh"`, or anything Keras knows.

    Args:
        activation: a name or a callable.

    Returns:
        A callable of one tensor.

    Raises:
        ValueError: Keras does not know the name.
    """
    return gelu_tanh if activation == "gelu_tanh" else keras.activations.get(activation)


def serialize_activation(activation):
    """Returns what a config holds for `activation`, which `get_activation` reads back."""
    return activation if isinstance(activation, str) else keras.activations.serialize(activation)
