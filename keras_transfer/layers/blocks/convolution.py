"""A Transformer block with a parallel convolution."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transfer.layers.basic.activations import get_activation
from keras_transfer.layers.blocks.transformer import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_transfer")
class ConvolutionBlock(TransformerBlock):
    """A Transformer block that adds a convolution of its inputs to its output and normalizes the sum (DeBERTa v2).

    Args:
        attention: Layer, a `DisentangledAttention` or another `MultiHeadAttention`. Its name is part of the paths of
            its weights.
        feed_forward: Layer from `[rows, dim]` to the same shape, such as `FeedForward`.
        kernel_size: Odd integer. Number of tokens under the convolution's kernel. Defaults to `3`.
        conv_activation: String or callable. Activation of the convolution. Defaults to `"tanh"`.
        **kwargs: Arguments of `TransformerBlock`, such as `dropout`, `layer_norm_epsilon` and `name`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `attention_bias`: Tensor of shape `[batch, 1, 1, length]`, from `AttentionBias`. The convolution sees zeros in
          place of hidden tokens. Defaults to `None`.
        - `record`: Function that receives the attention weights. Defaults to `None`.
        - `**kwargs`: Call arguments of `TransformerBlock`, such as `relative_positions`.

    Returns:
        A tensor of shape `[batch, length, dim]`.

    Example:
    ```python
    block = keras_transfer.layers.ConvolutionBlock(
        keras_transfer.layers.MultiHeadAttention(num_heads=2, name="attention"),
        keras_transfer.layers.FeedForward(intermediate_dim=16, name="feed_forward"),
    )
    x = keras.random.normal((1, 3, 8))
    block(x, attention_bias=keras_transfer.layers.AttentionBias()(np.array([[1, 1, 0]])))
    ```
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        *,
        kernel_size: int = 3,
        conv_activation: str | Callable = "tanh",
        **kwargs: Any,
    ):
        super().__init__(attention, feed_forward, **kwargs)
        self.kernel_size = kernel_size
        self.conv_activation = get_activation(conv_activation)
        self.conv_norm = self._norm("conv_norm")

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.conv = keras.layers.Conv1D(
            inputs_shape[-1], self.kernel_size, padding="same", dtype=self.dtype_policy, name="conv"
        )
        self.conv.build(inputs_shape)
        self.conv_norm.build(inputs_shape)

    def call(self, inputs, attention_bias, record=None, training=None, **kwargs):
        x = super().call(inputs, attention_bias=attention_bias, record=record, training=training, **kwargs)
        real = ops.cast(ops.expand_dims(ops.equal(attention_bias[:, 0, 0], 0), -1), self.compute_dtype)
        local = self.dropout(self.conv(inputs * real) * real, training=training)
        return self.conv_norm(x + self.conv_activation(local))
