"""Activation functions that Keras offers only through a flag, under names that a config can contain."""

import math

import keras
from keras import ops

from keras_transfer.keras_internals import is_recorded


@keras.saving.register_keras_serializable(package="keras_transfer")
def gelu_tanh(x):
    """Computes the tanh approximation of GELU (Hendrycks & Gimpel 2016, section 2), as GPT-2 and KerasHub do."""
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation):
    """Returns an activation: `"gelu"` (exact), `"gelu_tanh"`, or any that Keras accepts."""
    if activation == "gelu_tanh":
        return gelu_tanh
    try:
        return keras.activations.get(activation)
    except ValueError as error:
        raise ValueError(
            "`activation` must be a callable or a name that Keras knows, such as 'gelu', 'gelu_tanh' (its "
            f"approximation), 'relu' or 'tanh'. Received: activation={activation!r}"
        ) from error


def activate(x, activation):
    """Applies an activation from `get_activation`; within a tape of TensorFlow, exact GELU with a cheaper gradient."""
    # For inference, TensorFlow fuses the plain function with the matmul before it. It fuses the tanh approximation only
    # if the names of its operations come after those of the matmul in the alphabet.
    if activation is keras.activations.gelu and keras.backend.backend() == "tensorflow" and is_recorded():
        return _recorded_gelu(x)
    with keras.name_scope("then"):
        return activation(x)


@ops.custom_gradient
def _recorded_gelu(x):
    # Only the slope is kept for the gradient. TensorFlow's own gradient keeps five tensors of this size. In half
    # precision, TensorFlow converts the inputs and outputs of each operation, which takes longer than two conversions.
    wide = ops.cast(x, keras.backend.result_type(x.dtype, "float32"))
    probability = 0.5 * ops.erf(wide * 0.5**0.5) + 0.5
    slope = probability + wide * ops.exp(-0.5 * ops.square(wide) - 0.5 * math.log(2 * math.pi))
    outputs, slope = ops.cast(wide * probability, x.dtype), ops.cast(slope, x.dtype)
    return outputs, lambda upstream: upstream * slope


def serialize_activation(activation):
    """Returns `activation` in a form for a config, which `get_activation` accepts."""
    if activation is gelu_tanh:
        return "gelu_tanh"
    return activation if isinstance(activation, str) else keras.activations.serialize(activation)
