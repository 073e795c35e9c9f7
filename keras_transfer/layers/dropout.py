"""Dropout that costs half the random numbers, on TensorFlow and JAX."""

import keras
from keras import ops

LEVELS = 2048


@keras.saving.register_keras_serializable(package="keras_transfer")
class Dropout(keras.layers.Dropout):
    """Dropout (Srivastava et al. 2014) in which one random number decides over two elements.

    Random numbers are what dropout costs. A random float32 has 23 random bits: the upper 11 decide over one element,
    the lower 12 over another, independently of each other. The rate is rounded to a multiple of 1 / 2048 (0.1 to
    0.1001), and what is kept is scaled by the rounded one, so that the expected output is exact. Where that would be
    off by more than a hundredth of the rate, or no axis has a known even size, it is Keras's own dropout; so it is on
    torch, which has dropout as one operation.

    Args:
        rate: float from 0 to 1, the share of elements that become 0 in training.
        noise_shape, seed: as in `keras.layers.Dropout`.

    Call arguments:
        inputs: tensor of any shape.
        training: bool, whether anything is dropped.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: `rate` is not from 0 to 1.

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
        return ops.where(keep, inputs * (LEVELS / (LEVELS - dropped)), 0)


def _is_even(size):
    return size is not None and size > 0 and size % 2 == 0
