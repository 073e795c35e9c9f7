"""The vectors at some positions of a sequence."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transfer")
class TakePositions(keras.layers.Layer):
    """Takes the vectors at some positions of each sequence, so that a head computes only these.

    Call arguments:
        inputs: Tensor of shape `[batch, length, dim]`.
        positions: Integer tensor of shape `[batch, places]`. A negative position, which fills an unused place, takes
            the first vector.

    Returns:
        A tensor of shape `[batch, places, dim]`.

    Example:
    ```python
    keras_transfer.layers.TakePositions()(np.ones((1, 5, 4)), np.array([[3, 1]]))  # [1, 2, 4]
    ```
    """

    def call(self, inputs, positions):
        batch, length = ops.shape(inputs)[0], ops.shape(inputs)[1]
        rows = ops.cast(ops.arange(batch), "int32")[:, None] * ops.cast(length, "int32")
        places = rows + ops.maximum(ops.cast(positions, "int32"), 0)
        return ops.take(ops.reshape(inputs, (-1, inputs.shape[-1])), places, axis=0)

    def compute_output_spec(self, inputs, positions):
        return keras.KerasTensor((*positions.shape, inputs.shape[-1]), self.compute_dtype)
