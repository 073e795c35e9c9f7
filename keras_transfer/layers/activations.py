"""Activation functions that Keras has only as a flag, under a name that a config can hold."""

import keras


@keras.saving.register_keras_serializable(package="keras_transfer")
def gelu_tanh(x):
    """Computes the tanh approximation of GELU (Hendrycks & Gimpel 2016, section 2), as GPT-2 and KerasHub do."""
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation):
    """Returns the activation function with the given name.

    Args:
        activation: String or callable: `"gelu"` (exact), `"gelu_tanh"`, or any activation that Keras accepts.

    Returns:
        A callable of one tensor.

    Raises:
        ValueError: If Keras does not know the name.
    """
    return gelu_tanh if activation == "gelu_tanh" else keras.activations.get(activation)


def serialize_activation(activation):
    """Returns `activation` in a form for a config, which `get_activation` accepts."""
    return activation if isinstance(activation, str) else keras.activations.serialize(activation)
