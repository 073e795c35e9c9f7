"""The additive bias that masks attention scores."""

import functools
from typing import Any

import keras
from keras import ops

from keras_transfer.layers.basic.config import ConfigOfArguments

# Softmax makes it exactly 0. It is also finite in float16, to which Keras casts the floats that a layer is called with.
HIDDEN = -3e4


def mask_bias(padding_mask=None, attention_mask=None, causal=False, window=None, length=None, num_keys=None, start=0):
    """Returns 0 where a query sees a key and a large negative number elsewhere, or None if every key is visible.

    It is a float32 tensor to be added to attention scores `[batch, heads, length, num_keys]`.

    Args:
        padding_mask: Tensor of shape `[batch, num_keys]`. 1 for a real key, 0 for padding.
        attention_mask: Tensor of shape `[batch, length, num_keys]`. 1 where a query sees a key.
        causal: Boolean. Whether a query sees only keys up to its own position.
        window: Integer. Largest distance between a query and a key that it sees.
        length: Integer. Number of queries. Required for `causal` and `window`, as is `num_keys`.
        start: Integer. Position of the first query.
    """
    visible = []
    if padding_mask is not None:
        visible.append(ops.expand_dims(ops.cast(padding_mask, "bool"), (1, 2)))
    if attention_mask is not None:
        visible.append(ops.expand_dims(ops.cast(attention_mask, "bool"), 1))
    if causal or window is not None:
        distance = (ops.arange(length) + start)[None, None, :, None] - ops.arange(num_keys)
        visible += [distance >= 0] if causal else []
        visible += [ops.abs(distance) <= window] if window is not None else []
    if not visible:
        return None
    return ops.cast(ops.where(functools.reduce(ops.logical_and, visible), 0.0, HIDDEN), "float32")


@keras.saving.register_keras_serializable(package="keras_transfer")
class AttentionBias(ConfigOfArguments, keras.layers.Layer):
    """Computes the additive attention bias of a padding mask once for all blocks of an encoder.

    Args:
        causal: Boolean. Whether a token sees only itself and earlier tokens. Defaults to `False`.
        window: Integer. Largest distance to a token that is visible, on either side. Defaults to `None`, any distance.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
        - `attention_mask`: Tensor of shape `[batch, length, length]`, 1 where a token sees another. Defaults to `None`.

    Returns:
        A float32 tensor of shape `[batch, 1, 1, length]`, or `[batch, 1, length, length]` with `causal`, `window` or an
        attention mask.

    Example:
    ```python
    bias = keras_transfer.layers.AttentionBias(causal=True)(np.array([[1, 1, 0]]))
    attention = keras_transfer.layers.MultiHeadAttention(num_heads=2, causal=True)
    attention(keras.random.normal((1, 3, 8)), attention_bias=bias)
    ```
    """

    def __init__(self, *, causal: bool = False, window: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.causal = causal
        self.window = window

    def call(self, padding_mask, attention_mask=None):
        length = ops.shape(padding_mask)[1]
        return mask_bias(padding_mask, attention_mask, self.causal, self.window, length=length, num_keys=length)

    def compute_output_spec(self, padding_mask, attention_mask=None):
        batch, length = padding_mask.shape
        rows = length if self.causal or self.window is not None or attention_mask is not None else 1
        return keras.KerasTensor((batch, 1, rows, length), "float32")
