"""The feed-forward networks of a Transformer block."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transfer.layers.basic.activations import activate, get_activation
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout
from keras_transfer.layers.basic.initializers import make_dense


@keras.saving.register_keras_serializable(package="keras_transfer")
class FeedForward(ConfigOfArguments, keras.layers.Layer):
    """Two dense layers with an activation between them: `outer(activation(inner(x)))` (Vaswani et al. 2017).

    Args:
        intermediate_dim: Integer. Width between the two layers.
        activation: String or callable. `"gelu"` is exact and `"gelu_tanh"` its approximation. Defaults to `"gelu"`.
        use_bias: Boolean. Whether the dense layers have a bias. Defaults to `True`.
        kernel_initializer: Initializer of all kernels. Defaults to `"glorot_uniform"`.
        dropout: Float between 0 and 1. Dropout rate between the two layers. Defaults to `0.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`.
        - `record`: Function that receives what `outer` reads, a tensor of shape `[..., intermediate_dim]`. Defaults to
          `None`.

    Returns:
        A tensor of the same shape.

    Example:
    ```python
    keras_transfer.layers.FeedForward(intermediate_dim=16)(keras.random.normal((2, 8)))
    ```
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: str | Callable = "gelu",
        *,
        use_bias: bool = True,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim = intermediate_dim
        self.activation = get_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        self.inner = make_dense(self, self.intermediate_dim, "inner", inputs_shape)
        self.outer = make_dense(self, inputs_shape[-1], "outer", (*inputs_shape[:-1], self.intermediate_dim))

    def call(self, inputs, record=None):
        neurons = self.neurons(inputs)
        if record is not None:
            record(neurons)
        return self.outer(self.dropout(neurons))

    def neurons(self, inputs: Any) -> Any:
        """Computes what the outer layer reads.

        Args:
            inputs: Tensor of shape `[..., dim]`.

        Returns:
            A tensor of shape `[..., intermediate_dim]`.
        """
        return activate(self.inner(inputs), self.activation)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


@keras.saving.register_keras_serializable(package="keras_transfer")
class GatedFeedForward(FeedForward):
    """A feed-forward network whose inner layer is multiplied by a gate: `outer(activation(gate(x)) * inner(x))`.

    With `activation="silu"` it is SwiGLU (Llama), with `"gelu_tanh"` GEGLU (T5 1.1, Gemma).

    Args:
        intermediate_dim: Integer. Width of the inner layer and of the gate.
        activation: String or callable. Activation of the gate. Defaults to `"gelu"`.
        use_bias: Boolean. Whether the projections have a bias. Defaults to `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        dropout: Float between 0 and 1. Dropout rate of the inner activations. Defaults to `0.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    The call arguments are those of `FeedForward`.

    Returns:
        A tensor of shape `[..., dim]`.

    Example:
    ```python
    layer = keras_transfer.layers.GatedFeedForward(intermediate_dim=16, activation="silu", use_bias=False)
    layer(keras.random.normal((2, 8)))
    ```

    Source: https://arxiv.org/abs/2002.05202
    """

    def build(self, inputs_shape):
        self.gate = make_dense(self, self.intermediate_dim, "gate", inputs_shape)
        self.inner = make_dense(self, self.intermediate_dim, "inner", inputs_shape)
        self.outer = make_dense(self, inputs_shape[-1], "outer", (*inputs_shape[:-1], self.intermediate_dim))

    def neurons(self, inputs: Any) -> Any:
        return activate(self.gate(inputs), self.activation) * self.inner(inputs)
