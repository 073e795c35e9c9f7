"""Accuracy over words, for rows in which some positions have no label."""

from typing import Any

import keras
from keras import ops

from keras_transfer.metrics.rows import agree


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordAccuracy(keras.metrics.Mean):
    """The fraction of words whose label has the highest logit, over all batches.

    All words have the same weight, regardless of the length of their batch. (`keras.metrics.Mean` of a [batch, length]
    array averages over the length first, so words of short batches weigh more.)

    Args:
        name: String. Name of the metric. Defaults to `"accuracy"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch, length]`. The label of each word, negative if the position has none (padding,
          special tokens, all pieces of a word after the first).
        - `y_pred`: Logits or probabilities `[batch, length, classes]`.
        - `sample_weight`: Weights `[batch]` or `[batch, length]`.

    Raises:
        ValueError: If the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.WordAccuracy()
    metric.update_state([[0, -1, 1]], [[[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]])
    float(metric.result())  # 0.5
    ```
    """

    def __init__(self, *, name: str = "accuracy", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        true, predicted, weights = words(y_true, y_pred, sample_weight)
        super().update_state(ops.reshape(true == predicted, (-1,)), ops.reshape(weights, (-1,)))


def words(y_true, y_pred, sample_weight):
    """Returns int32 true and predicted labels, and float32 weights that are 0 at positions without a word."""
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    true_shape, shape = tuple(y_true.shape), tuple(y_pred.shape)
    if len(shape) != 3 or not agree(true_shape, shape[:2]):
        raise ValueError(
            "`y_true` must have the shape [batch, length] and `y_pred` [batch, length, classes]. "
            f"Received: {true_shape} and {shape}"
        )
    true = ops.cast(y_true, "int32")
    weights = ops.cast(true >= 0, "float32")
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        weights = weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)
    return true, ops.cast(ops.argmax(y_pred, axis=-1), "int32"), weights
