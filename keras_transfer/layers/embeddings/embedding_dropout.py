"""Dropout of whole rows of an embedding table."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, integer
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout


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
