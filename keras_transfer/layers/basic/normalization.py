"""Layer normalization of few operations."""

import keras
from keras import ops

from keras_transfer.keras_internals import is_recorded


@keras.saving.register_keras_serializable(package="keras_transfer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Layer normalization (Ba et al. 2016) that takes about half as many operations to train on TensorFlow.

    On TensorFlow, the layer reads and writes its inputs less often than Keras's. Within a `tf.GradientTape`, it
    computes the gradient by its closed formula instead of operation by operation. The other backends fuse the
    operations of Keras's layer, so this layer uses them there.

    Args:
        axis: Integer, or list of integers. Axes that are normalized. Defaults to `-1`.
        epsilon: Float. Added to the variance. Defaults to `1e-3`.
        **kwargs: Arguments of `keras.layers.LayerNormalization`, such as `center` and `scale`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`.

    Returns:
        A tensor of the same shape.

    Example:
    ```python
    keras_transfer.layers.LayerNormalization(epsilon=1e-12)(keras.random.normal((2, 3, 8)))
    ```
    """

    def call(self, inputs):
        last = list(self.axis) == [len(inputs.shape) - 1] or list(self.axis) == [-1]
        if self.gamma is None or self.rms_scaling or not last or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        variables = (self.gamma,) if self.beta is None else (self.gamma, self.beta)
        weights = [ops.cast(variable, x.dtype) for variable in variables]  # Tensors instead of variables.

        if not is_recorded():  # SavedModels cannot store a custom gradient.
            centered = x - ops.mean(x, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
            scaled = centered * (ops.rsqrt(variance + self.epsilon) * weights[0])
            return ops.cast(sum(weights[1:], scaled), self.compute_dtype)

        @ops.custom_gradient
        def normalize(x, gamma, *beta):
            centered = x - ops.mean(x, axis=-1, keepdims=True)
            scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + self.epsilon)
            normalized = centered * scale

            def gradient(upstream):
                inner = upstream * gamma
                inner -= normalized * ops.mean(inner * normalized, axis=-1, keepdims=True)
                inner -= ops.mean(inner, axis=-1, keepdims=True)
                rows = (-1, x.shape[-1])
                gamma_gradient = ops.sum(ops.reshape(upstream * normalized, rows), axis=0)
                return inner * scale, gamma_gradient, *(ops.sum(ops.reshape(upstream, rows), axis=0) for _ in beta)

            return sum(beta, normalized * gamma), gradient

        return ops.cast(normalize(x, *weights), self.compute_dtype)
