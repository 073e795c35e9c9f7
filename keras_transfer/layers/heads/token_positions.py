"""Layers that select the vectors at some positions of sequences, or put other tokens there."""

from typing import Any

import keras
from keras import ops

from keras_transfer.layers.attention.bias import HIDDEN
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class TakePositions(keras.layers.Layer):
    """Takes the vectors at some positions of each sequence, so that a head computes only these.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `positions`: Integer tensor of shape `[batch, places]`. A negative position, which fills an unused place,
          takes the first vector.

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


@keras.saving.register_keras_serializable(package="keras_transfer")
class PositionLogits(keras.layers.Layer):
    """Turns scores of positions into logits over those positions that are not masked out.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, kinds]`. One score of each kind for each position, such as for the
          start and the end of an answer.
        - `position_mask`: Integer tensor of shape `[batch, length]`. 1 for a position that counts, 0 for one that does
          not.

    Returns:
        A tensor of shape `[batch, kinds, length]`, -30,000 at positions that do not count, so that a softmax is 0
        there.

    Example:
    ```python
    scores = np.array([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]])
    keras_transfer.layers.PositionLogits()(scores, np.array([[1, 0, 1]]))  # [[[1, -3e4, 3], [5, -3e4, 7]]]
    ```
    """

    def call(self, inputs, position_mask):
        counts = ops.expand_dims(ops.cast(position_mask, "bool"), 1)
        return ops.where(counts, ops.transpose(inputs, (0, 2, 1)), ops.cast(HIDDEN, inputs.dtype))

    def compute_output_spec(self, inputs, position_mask):
        batch, length, kinds = inputs.shape
        return keras.KerasTensor((batch, kinds, length), self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_transfer")
class SampleTokens(ConfigOfArguments, keras.layers.Layer):
    """Replaces the tokens at some positions of each sequence by tokens drawn from a language model's distribution.

    No gradient flows through the tokens. With `training=False`, as in `evaluate`, each call with the same arguments
    draws the same tokens.

    Args:
        seed: Integer. Seed of the random numbers. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `token_ids`: Integer tensor of shape `[batch, length]`.
        - `positions`: Integer tensor of shape `[batch, places]`, different in each row, negative at unused places.
        - `logits`: Tensor of shape `[batch, places, vocabulary_size]`.
        - `training`: Boolean. Whether each call draws other tokens. Defaults to `None`, which means `True` outside of
            `evaluate` and `predict`.

    Returns:
        An int32 tensor of shape `[batch, length]`.

    Example:
    ```python
    logits = np.log([[[0.1, 0.1, 0.8]]])
    keras_transfer.layers.SampleTokens()(np.array([[2, 0, 1]]), np.array([[1]]), logits)  # mostly [[2, 2, 1]]
    ```

    Source: https://arxiv.org/abs/2003.10555
    """

    def __init__(self, *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, token_ids, positions, logits, training=None):
        seed = (self.seed or 0) if training is False else self.seed_generator
        # The largest of the log-probabilities with Gumbel noise is a draw from the distribution. It has no gradient.
        uniform = keras.random.uniform(ops.shape(logits), 1e-7, 1.0 - 1e-7, "float32", seed=seed)
        drawn = ops.argmax(logits - ops.log(-ops.log(uniform)), axis=-1)
        return put_tokens(token_ids, positions, drawn)

    def compute_output_spec(self, token_ids, positions, logits, training=None):
        return keras.KerasTensor(token_ids.shape, "int32")


def put_tokens(token_ids, positions, tokens):
    """Returns ids [batch, length] with tokens [batch, places] at positions [batch, places] that are not negative."""
    token_ids, positions, tokens = (ops.cast(values, "int32") for values in (token_ids, positions, tokens))
    here = ops.arange(ops.shape(token_ids)[1], dtype="int32")[None, :, None] == positions[:, None, :]
    return ops.where(ops.any(here, axis=-1), ops.sum(ops.where(here, tokens[:, None, :], 0), axis=-1), token_ids)
