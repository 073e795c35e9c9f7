"""Dropout with one mask for all steps of a text, as in recurrent language models."""

from typing import Any

import keras
from keras import ops

from keras_transfer.layers.basic.dropout import Dropout


@keras.saving.register_keras_serializable(package="keras_transfer")
class VariationalDropout(Dropout):
    """Dropout that drops the same elements at all steps of a text (Gal and Ghahramani 2016).

    Each text of a batch has its own mask `[dim]`. AWD-LSTM, which calls it locked dropout, applies it to the inputs and
    the outputs of its recurrent layers. For the rounding of the rate, see `Dropout`.

    Args:
        rate: Float between 0 and 1. Fraction of the elements that are set to 0 in training.
        seed: Integer. Seed of the random numbers. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `training`: Boolean. Whether to apply dropout. Defaults to `False`.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: If `rate` is not between 0 and 1, or if the inputs do not have three axes.

    Example:
    ```python
    keras_transfer.layers.VariationalDropout(0.5)(keras.ops.ones((2, 3, 8)), training=True)  # equal at all 3 steps
    ```

    Source: https://arxiv.org/abs/1512.05287
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(rate, seed=seed, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        ones = ops.ones((ops.shape(inputs)[0], 1, inputs.shape[2]), inputs.dtype)
        return inputs * super().call(ones, training=True)

    def get_config(self):
        config = super().get_config()
        del config["noise_shape"]
        return config
