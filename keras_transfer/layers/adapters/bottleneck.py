"""A bottleneck: a projection down to a few dimensions, an activation, and a projection up again."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, one_of
from keras_transfer.layers.adapters.wrapper import Adapter
from keras_transfer.layers.basic.activations import activate, get_activation
from keras_transfer.layers.basic.config import ConfigOfArguments

SOURCES = ("outputs", "inputs", "summed")


def uniform():
    """Returns the initializer of most adapters: uniform within 1 / sqrt(number of inputs) of zero."""
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


@keras.saving.register_keras_serializable(package="keras_transfer")
class BottleneckAdapter(ConfigOfArguments, Adapter):
    """Adds `scale * up(activation(down(x)))` to the outputs of a sub-layer. `up` starts as zero.

    Args:
        units: Integer. Width of the bottleneck.
        activation: String or callable. Activation of the bottleneck. Defaults to `"gelu"`.
        source: String, the input `x`: `"outputs"` of the sub-layer (Houlsby et al. 2019), `"summed"` with the residual
            (Pfeiffer et al. 2021), or `"inputs"` of the sub-layer (He et al. 2022). Defaults to `"outputs"`.
        scale: Float. Factor of what is added. Defaults to `1.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `outputs`: Tensor of shape `[batch, length, dim]`. Outputs of the sub-layer.
        - `inputs`: Tensor of shape `[batch, length, dim]`. Inputs of the sub-layer, for `source="inputs"`. Defaults to
          `None`.
        - `summed`: Tensor of shape `[batch, length, dim]`. Sum of the residual and the outputs, for `source="summed"`.
          Defaults to `None`.

    Returns:
        A tensor of shape `[batch, length, dim]`.

    Example:
    ```python
    keras_transfer.layers.BottleneckAdapter(2)(keras.random.normal((1, 3, 8)))
    ```
    """

    @expects(source=one_of(*SOURCES))
    def __init__(
        self,
        units: int,
        *,
        activation: str | Callable = "gelu",
        source: str = "outputs",
        scale: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.activation = get_activation(activation)
        self.source = source
        self.scale = scale

    @property
    def uses_sum(self) -> bool:  # type: ignore[override]
        """Boolean. Whether the adapter needs the sum of the residual and the outputs."""
        return self.source == "summed"

    def build(self, outputs_shape, *_):
        dim = outputs_shape[-1]
        self.down = self.add_weight(name="down_kernel", shape=(dim, self.units), initializer=uniform())
        self.down_bias = self.add_weight(name="down_bias", shape=(self.units,), initializer="zeros")
        self.up = self.add_weight(name="up_kernel", shape=(self.units, dim), initializer="zeros")
        self.up_bias = self.add_weight(name="up_bias", shape=(dim,), initializer="zeros")

    def kernels(self) -> Any:
        """Returns the kernels of the two projections.

        Returns:
            Two tensors of shapes `[dim, units]` and `[units, dim]`.
        """
        return ops.convert_to_tensor(self.down), ops.convert_to_tensor(self.up)

    def call(self, outputs, inputs=None, summed=None, training=None):
        return outputs + self.change(outputs, inputs, summed)

    def change(self, outputs: Any, inputs: Any = None, summed: Any = None) -> Any:
        """Computes what the adapter adds to the outputs.

        Args:
            outputs: Tensor of shape `[batch, length, dim]`. Outputs of the sub-layer.
            inputs: Tensor of the same shape. Inputs of the sub-layer, for `source="inputs"`. Defaults to `None`.
            summed: Tensor of the same shape. Sum of the residual and the outputs, for `source="summed"`. Defaults to
                `None`.

        Returns:
            A tensor of the shape of `outputs`.
        """
        x = {"outputs": outputs, "inputs": inputs, "summed": summed}[self.source]
        rows = ops.reshape(x, (-1, x.shape[-1]))  # On rows, TensorFlow uses plain matmuls.
        down, up = (ops.cast(kernel, self.compute_dtype) for kernel in self.kernels())
        h = activate(ops.matmul(rows, down) + self.down_bias, self.activation)
        h = ops.matmul(h, up) + self.up_bias
        h = h if self.scale == 1.0 else h * self.scale
        return ops.reshape(h, ops.shape(outputs))
