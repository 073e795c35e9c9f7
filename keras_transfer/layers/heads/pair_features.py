"""The features of a pair of vectors for a pair classifier."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transfer")
class PairFeatures(keras.layers.Layer):
    """Joins the vectors `u` and `v` of two texts into `[u, v, |u - v|, u * v]`.

    Call arguments:
        - `inputs`: Tensor of shape `[2 * pairs, dim]`, the vectors of a pair one after the other.

    Returns:
        A tensor of shape `[pairs, 4 * dim]`.

    Example:
    ```python
    keras_transfer.layers.PairFeatures()(np.array([[1.0], [3.0]]))  # [[1, 3, 2, 3]]
    ```

    Source: Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations" (InferSent), section 3.
    """

    def call(self, inputs):
        dim = inputs.shape[-1]
        pairs = ops.reshape(inputs, (-1, 2 * dim))
        u, v = pairs[:, :dim], pairs[:, dim:]
        return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, 4 * inputs.shape[-1]), self.compute_dtype)
