"""Dropout that draws half as many random numbers on TensorFlow and JAX, of elements, of texts and of tokens."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, integer
from keras_transfer.layers.basic.config import ConfigOfArguments

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


@keras.saving.register_keras_serializable(package="keras_transfer")
class EmbeddingDropout(ConfigOfArguments, keras.layers.Layer):
    """Drops the embeddings of some tokens of the vocabulary (Gal and Ghahramani 2016; Merity et al. 2018).

    Each training call draws one mask for the rows of the table: the vectors of a dropped token are 0 wherever it occurs
    in the batch, and those of the other tokens are scaled. The layer changes the vectors, not the table, which stays
    whole for output embeddings that are tied to it. For the rounding of the rate, see `Dropout`.

    Args:
        input_dim: Integer. Number of tokens, the rows of the table.
        rate: Float between 0 and 1. Fraction of the tokens that are dropped in training.
        seed: Integer. Seed of the random numbers. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`, the embeddings of `token_ids`.
        - `token_ids`: Integer tensor of shape `[...]`, from 0 to `input_dim - 1`.
        - `training`: Boolean. Whether to apply dropout. Defaults to `False`.

    Returns:
        A tensor of the shape of the inputs.

    Example:
    ```python
    ids = np.array([[1, 2, 1], [3, 1, 2]])
    vectors = keras.layers.Embedding(10, 4)(ids)
    keras_transfer.layers.EmbeddingDropout(10, 0.5)(vectors, ids, training=True)  # 1 is dropped everywhere or nowhere
    ```

    Source: https://arxiv.org/abs/1512.05287; https://arxiv.org/abs/1708.02182, section 4.3.
    """

    @expects(input_dim=integer(1))
    def __init__(self, input_dim: int, rate: float, *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.input_dim, self.rate, self.seed = input_dim, rate, seed
        self.rows = Dropout(rate, seed=seed, dtype=self.dtype_policy, name="rows")

    def call(self, inputs, token_ids, training=False):
        if not training or self.rows.rate == 0:
            return inputs
        scale = self.rows(ops.ones((self.input_dim,), self.compute_dtype), training=True)
        return inputs * ops.take(scale, token_ids, axis=0)[..., None]

    def compute_output_spec(self, inputs, token_ids, training=False):
        return keras.KerasTensor(inputs.shape, self.compute_dtype)
