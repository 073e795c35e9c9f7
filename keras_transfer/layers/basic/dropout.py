"""Dropout that draws half as many random numbers on TensorFlow and JAX."""

import keras
from keras import ops

LEVELS = 2048


@keras.saving.register_keras_serializable(package="keras_transfer")
class Dropout(keras.layers.Dropout):
    """Dropout (Srivastava et al. 2014) that draws one random number for two elements.

    Most of the cost of dropout is drawing random numbers. A random float32 has 23 random bits: the upper 11 decide
    whether to keep one element, the lower 12 another, independently. The rate is rounded to a multiple of 1 / 2048
    (0.1 to 0.1001), and the kept elements are scaled by the rounded rate, so that the expected output is exact. If
    rounding changes the rate by more than 1%, or if no axis has a known even size, the layer falls back to Keras's
    dropout. It always does so on torch, where dropout is a single operation.

    Args:
        rate: Float between 0 and 1. Fraction of the elements that are set to 0 in training.
        noise_shape: Tuple of integers, the shape of the random mask, which is broadcast to the inputs. Defaults to
            `None`, the shape of the inputs.
        seed: Integer. Seed of the random numbers. Defaults to `None`, a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of any shape, such as `[batch, length, dim]`.
        - `training`: Boolean. Whether to apply dropout. Defaults to `False`.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: If `rate` is not between 0 and 1.

    Example:
    ```python
    keras_transfer.layers.Dropout(0.1)(keras.ops.ones((2, 8)), training=True)
    ```
    """

    def call(self, inputs, training=False):
        dropped = round(self.rate * LEVELS)
        axis = next((i for i in reversed(range(len(inputs.shape))) if _is_even(inputs.shape[i])), None)
        exact = abs(dropped / LEVELS - self.rate) <= self.rate / 100
        own = keras.backend.backend() == "torch" or self.noise_shape
        if not training or dropped in (0, LEVELS) or own or axis is None or not exact:
            return super().call(inputs, training=training)
        shape = list(ops.shape(inputs))
        shape[axis] = shape[axis] // 2
        number = keras.random.uniform(shape, maxval=LEVELS, dtype="float32", seed=self.seed_generator)
        upper = ops.floor(number)
        keep = ops.concatenate([upper >= dropped, number - upper >= dropped / LEVELS], axis)
        return _scale_kept(inputs, keep, LEVELS / (LEVELS - dropped))


def _scale_kept(inputs, keep, factor):
    if keras.backend.backend() != "tensorflow":
        return ops.where(keep, inputs * factor, 0)

    @ops.custom_gradient  # TensorFlow's own also computes the gradients of the mask, the factor and the zero.
    def scale_kept(inputs):
        return ops.where(keep, inputs * factor, 0), lambda upstream: ops.where(keep, upstream * factor, 0)

    return scale_kept(inputs)


def _is_even(size):
    return size is not None and size > 0 and size % 2 == 0
