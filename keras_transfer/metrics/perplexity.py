"""The perplexity of language models."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transfer")
class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy, per token, over all batches.

    All tokens have the same weight, regardless of the length of their batch. Positions of weight 0 do not count.

    Args:
        name: String. Name of the metric. Defaults to `"perplexity"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch, length]`. The token to predict at each position.
        - `y_pred`: Logits `[batch, length, vocabulary]`.
        - `sample_weight`: Weights of tokens `[batch, length]` or of rows `[batch]`. Defaults to `None`, 1 for all.

    Example:
    ```python
    metric = keras_transfer.metrics.Perplexity()
    metric.update_state([[0, 1]], [[[2.0, 2.0], [0.0, 9.0]]], sample_weight=[[1.0, 0.0]])
    float(metric.result())  # 2.0
    ```
    """

    def __init__(self, *, name: str = "perplexity", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.cast(y_true, "int32"), ops.cast(y_pred, "float32"), from_logits=True
        )
        if sample_weight is not None:
            weights = ops.cast(sample_weight, "float32")
            weights = weights[:, None] if len(weights.shape) == 1 else weights
            sample_weight = ops.reshape(ops.broadcast_to(weights, ops.shape(losses)), (-1,))
        super().update_state(ops.reshape(losses, (-1,)), sample_weight)

    def result(self):
        return ops.exp(super().result())
