"""The exact area under the ROC curve."""

from typing import Any

import keras
from keras import ops

from keras_transfer.metrics.buffered import BufferedMetric, midranks
from keras_transfer.metrics.rows import class_rows, count_classes


@keras.saving.register_keras_serializable(package="keras_transfer")
class AUC(BufferedMetric):
    """Exact area under the ROC curve, computed from logits.

    With more than two classes, the result is the macro average of one-vs-rest values. It equals
    `sklearn.metrics.roc_auc_score`, where equal scores count half, while `keras.metrics.AUC` approximates it with a
    number of thresholds. The result is NaN if a class has no positive or no negative rows. `update_state` keeps the
    scores of all rows, and each result sorts them, once for each class.

    Args:
        capacity: Integer. Maximum number of rows. The result is NaN if there are more, and a warning says so.
            Defaults to `32768`.
        name: String. Name of the metric. Defaults to `"auc"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]`, or ones and zeros `[batch, classes]` if a row may have several labels. The
          result is then the mean over classes. Rows with a negative integer do not count. The result is NaN after a
          label that is not below the number of classes (torch raises an error), or a logit that is NaN.
        - `y_pred`: Logits `[batch, classes]`. For two classes, also `[batch]` or `[batch, 1]`, the logit of class 1.
        - `sample_weight`: Weights `[batch]`. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If `capacity` is not a positive integer, or if the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.AUC()
    metric.update_state([1, 0, 1, 0], [2.0, 1.5, 1.0, -3.0])
    float(metric.result())  # 0.75
    ```
    """

    def __init__(self, capacity: int = 32_768, *, name: str = "auc", dtype: Any = None):
        super().__init__(capacity, name, dtype)

    def count_columns(self, true_shape: tuple[int, ...], shape: tuple[int, ...]) -> int:
        classes, several = count_classes(true_shape, shape)
        return classes if several or classes > 2 else 1

    def columns(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple:
        true, logits, weights = class_rows(y_true, y_pred, sample_weight)
        if len(true.shape) == 2:
            return true, logits, weights
        classes = logits.shape[1]
        if classes == 2:
            return ops.cast(true, "float32")[:, None], logits[:, 1:] - logits[:, :1], weights
        return ops.one_hot(true, classes, dtype="float32"), _log_odds(logits), weights

    def score(self, true: Any, given: Any, weights: Any) -> Any:
        positive, negative = weights * true, weights * (1 - true)
        higher = midranks(given, negative) / ops.sum(negative)
        return ops.sum(positive * higher) / ops.sum(positive)


def _log_odds(logits):
    """Returns log p / (1 - p) for the probability of each class, which differ even if probabilities round to 1."""
    first = ops.one_hot(ops.argmax(logits, axis=-1), logits.shape[1], dtype="bool")
    others = ops.logsumexp(ops.where(first, float("-inf"), logits), axis=-1, keepdims=True)
    logs = ops.log_softmax(logits)
    return ops.where(first, logits - others, logs - ops.log1p(-ops.exp(logs)))
