"""Penalties of the outputs of a recurrent network in training."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, number
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class ActivationPenalty(ConfigOfArguments, keras.layers.Layer):
    """Penalizes large outputs of a recurrent layer, and changes from step to step (Merity et al. 2017).

    In training, it adds to the loss of the model, with the outputs h of the layer and d after their dropout,

        activation * mean(d_t ** 2) + temporal * mean((h_t+1 - h_t) ** 2)

    which are AR (activation regularization) and TAR (temporal activation regularization). Means are over the elements
    of all real steps of a batch. The metrics of the model do not contain the penalties.

    Args:
        activation: Float, at least 0. Factor of AR. Defaults to `2.0`.
        temporal: Float, at least 0. Factor of TAR. Defaults to `1.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`. The outputs of the layer.
        - `dropped`: Tensor of the same shape. The outputs after their dropout. Defaults to `None`, without dropout.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real step, 0 for padding. Defaults to `None`.
        - `training`: Boolean. Whether to add the penalties. Defaults to `False`.

    Returns:
        `dropped`, unchanged.

    Example:
    ```python
    layer = keras_transfer.layers.ActivationPenalty(activation=2.0, temporal=1.0)
    layer(keras.ops.ones((2, 3, 4)), training=True)
    layer.losses  # [2.0, 0.0]
    ```

    Source: https://arxiv.org/abs/1708.01009
    """

    @expects(activation=number(0), temporal=number(0))
    def __init__(self, activation: float = 2.0, temporal: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.activation, self.temporal = float(activation), float(temporal)
        self.mean_over = None  # Numbers of steps and of changes on this replica of TensorFlow, which weight the means.
        self.built = True

    def call(self, inputs, dropped=None, padding_mask=None, training=False):
        dropped = inputs if dropped is None else dropped
        if training:
            raw = ops.cast(inputs, "float32")
            real = ops.ones(ops.shape(raw)[:2]) if padding_mask is None else ops.cast(padding_mask, "float32")
            changes, both_real = raw[:, 1:] - raw[:, :-1], real[:, 1:] * real[:, :-1]
            self.add_loss(self.activation * _mean_square(ops.cast(dropped, "float32"), real))
            self.add_loss(self.temporal * _mean_square(changes, both_real))
            if keras.backend.backend() == "tensorflow":
                self.mean_over = [ops.sum(real), ops.sum(both_real)]
        return dropped

    def compute_output_spec(self, inputs, dropped=None, padding_mask=None, training=False):
        dropped = inputs if dropped is None else dropped
        return keras.KerasTensor(dropped.shape, dropped.dtype)


def _mean_square(values, real):
    """Returns the mean of the squares of `values` `[batch, length, dim]` where `real` `[batch, length]` is 1."""
    count = ops.maximum(ops.sum(real) * values.shape[-1], 1.0)
    return ops.sum(ops.square(values) * real[:, :, None]) / count
