"""Windows over the last tokens of a text: how a model with a fixed context encodes each position."""

import keras
from keras import ops

from keras_transfer.integers import check_integer


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenWindows(keras.layers.Layer):
    """Returns, for each position of a text, its token and those before it as a row of their own.

    The row of a position ends with its token. Where a text has fewer tokens than the window, the row begins with the id
    0. Padding is left out of rows, wherever it is.

    Args:
        window: Integer, at least 2. Number of tokens of a row.

    Call arguments:
        - `token_ids`: Integer tensor of shape `[batch, length]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding. Defaults to `None`.
        - `before`: Integer tensor of shape `[batch, window - 1]`, the tokens before the texts. Defaults to `None`,
          zeros.

    Returns:
        A tuple of the rows, `[batch * length, window]`, and of the last tokens, `[batch, window - 1]`.
    """

    def __init__(self, window, **kwargs):
        super().__init__(**kwargs)
        self.window = check_integer("window", window, 2)

    def call(self, token_ids, padding_mask=None, before=None):
        token_ids = ops.cast(token_ids, "int32")
        batch, length = ops.shape(token_ids)
        kept = self.window - 1
        before = ops.zeros((batch, kept), "int32") if before is None else ops.cast(before, "int32")
        mask = ops.ones_like(token_ids) if padding_mask is None else ops.cast(padding_mask, "int32")
        real = ops.concatenate([ops.ones_like(before), mask], axis=1)
        # The real tokens first, in their order.
        keys = ops.arange(kept + length, dtype="int32") + (kept + length) * (1 - real)
        ids = ops.take_along_axis(ops.concatenate([before, token_ids], axis=1), ops.argsort(keys, axis=1), axis=1)
        ends = ops.cumsum(real, axis=1)[:, kept:]  # The number of real tokens up to each position.
        places = ops.maximum(ends - self.window, 0)[:, :, None] + ops.arange(self.window, dtype="int32")
        rows = ops.take_along_axis(ids, ops.reshape(places, (batch, -1)), axis=1)
        after = ops.take_along_axis(ids, ends[:, -1:] - kept + ops.arange(kept, dtype="int32"), axis=1)
        return ops.reshape(rows, (-1, self.window)), after

    def compute_output_spec(self, token_ids, padding_mask=None, before=None):
        batch, length = token_ids.shape
        rows = None if None in (batch, length) else batch * length
        shapes = (rows, self.window), (batch, self.window - 1)
        return tuple(keras.KerasTensor(shape, "int32") for shape in shapes)

    def get_config(self):
        return {**super().get_config(), "window": self.window}


@keras.saving.register_keras_serializable(package="keras_transfer")
class PositionsOfRows(keras.layers.Layer):
    """Returns vectors of the rows of `TokenWindows` as vectors of the positions, 0 at padding.

    Call arguments:
        - `vectors`: Tensor of shape `[batch * length, dim]`, or `[batch * length, window, dim]`, of which the last step
          of each row counts.
        - `token_ids`: Tensor of shape `[batch, length]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. Defaults to `None`, all are real.

    Returns:
        A tensor of shape `[batch, length, dim]`.
    """

    def call(self, vectors, token_ids, padding_mask=None):
        vectors = vectors[:, -1] if len(vectors.shape) == 3 else vectors
        vectors = ops.reshape(vectors, (*ops.shape(token_ids), vectors.shape[-1]))
        if padding_mask is None:
            return vectors
        return ops.where(ops.cast(padding_mask, "bool")[:, :, None], vectors, ops.zeros_like(vectors))

    def compute_output_spec(self, vectors, token_ids, padding_mask=None):
        return keras.KerasTensor((*token_ids.shape, vectors.shape[-1]), self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_transfer")
class AttentionAverage(keras.layers.Layer):
    """Averages the steps of a row, weighted by the softmax of a learned score of each step, as in DeepMoji.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.

    Returns:
        A tensor of shape `[batch, dim]`.

    Source: https://arxiv.org/abs/1708.00524, section 3.3.
    """

    def build(self, input_shape):
        self.kernel = self.add_weight((input_shape[-1], 1), "uniform", name="kernel")

    def call(self, inputs):
        weights = ops.softmax(ops.cast(ops.matmul(inputs, self.kernel), "float32"), axis=1)
        return ops.sum(inputs * ops.cast(weights, inputs.dtype), axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])
