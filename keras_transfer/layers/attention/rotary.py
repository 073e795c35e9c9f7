"""Rotary position embeddings (Su et al. 2021)."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class RotaryPositions(ConfigOfArguments, keras.layers.Layer):
    """Computes the cosines and sines of rotary positions once for all blocks of an encoder.

    `MultiHeadAttention` uses them to rotate queries and keys. Element `i` of a head pairs with element `i + dim / 2`
    (the order of GPT-NeoX and Llama), and position `p` turns the pair by the angle `p * base**(-2i / dim)`.

    Args:
        head_dim: Integer, even. Number of elements of each head that are rotated.
        base: Float. Base of the wavelengths. Defaults to `10000.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, width]`. Only its length matters.
        - `start`: Integer. Position of the first token. Defaults to `0`.

    Returns:
        A dict with the key `rotary`, the keyword argument of `MultiHeadAttention`: a tuple of cosines and sines, each
        of shape `[length, dim / 2]`.

    Raises:
        ValueError: If `head_dim` is odd or not positive.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    attention = keras_transfer.layers.MultiHeadAttention(num_heads=2)
    attention(x, **keras_transfer.layers.RotaryPositions(head_dim=4)(x))
    ```

    Source: https://arxiv.org/abs/2104.09864
    """

    def __init__(self, head_dim: int, *, base: float = 10000.0, **kwargs: Any):
        super().__init__(**kwargs)
        expect(head_dim >= 2 and head_dim % 2 == 0, "`head_dim` must be a positive even number.", head_dim=head_dim)
        self.head_dim = head_dim
        self.base = base

    def call(self, inputs, start=0):
        positions = ops.cast(ops.arange(ops.shape(inputs)[1]) + start, "float32")
        frequencies = ops.power(float(self.base), ops.arange(0, self.head_dim, 2, dtype="float32") / -self.head_dim)
        angles = positions[:, None] * frequencies[None]
        return {"rotary": tuple(ops.cast(function(angles), self.compute_dtype) for function in (ops.cos, ops.sin))}

    def compute_output_spec(self, inputs, start=0):
        shape = (inputs.shape[1], self.head_dim // 2)
        return {"rotary": tuple(keras.KerasTensor(shape, self.compute_dtype) for _ in range(2))}


def rotate(x, rotary):
    """Returns queries or keys `[batch, heads, length, head_dim]` turned by their positions."""
    cosine, sine = rotary
    half = cosine.shape[-1]
    # `split`, because TensorFlow's gradient of each slice would be a tensor of zeros around it.
    first, second, *rest = ops.split(x, 2 if x.shape[-1] == 2 * half else [half, 2 * half], axis=-1)
    return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine, *rest], axis=-1)
