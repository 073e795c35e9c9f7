"""Correlations between regression outputs and their targets."""

from typing import Any

import keras
from keras import ops

from keras_transfer.metrics.buffered import BufferedMetric, midranks
from keras_transfer.metrics.rows import row_weights


class Correlation(BufferedMetric):
    """Base class of the correlations between targets and outputs, both `[batch]`, [batch, 1] or `[batch, targets]`."""

    def count_columns(self, true_shape: tuple[int, ...], shape: tuple[int, ...]) -> int:
        targets = [other[1] if len(other) == 2 else 1 for other in (true_shape, shape)]
        if not 1 <= len(true_shape) <= 2 or not 1 <= len(shape) <= 2 or targets[0] != targets[1] or None in targets:
            raise ValueError(
                "`y_true` and `y_pred` must both have the shape [batch], [batch, 1] or [batch, targets]. "
                f"Received: {true_shape} and {shape}"
            )
        return targets[0]

    def columns(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple:
        columns = self.rows.shape[1] // 2
        true, given = (ops.reshape(ops.cast(values, "float32"), (-1, columns)) for values in (y_true, y_pred))
        return true, given, row_weights(sample_weight, ops.shape(given)[:1])


@keras.saving.register_keras_serializable(package="keras_transfer")
class PearsonCorrelation(Correlation):
    """The Pearson correlation between targets and outputs of a regression, over all batches.

    Equals `scipy.stats.pearsonr`, which is NaN if all targets or all outputs are equal. For several targets per row,
    the result is the mean of their correlations.

    Args:
        capacity: Integer. Maximum number of rows. The result is NaN if there are more, and a warning says so.
            Defaults to `32768`.
        name: String. Name of the metric. Defaults to `"pearson_correlation"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Floats `[batch]`, [batch, 1] or `[batch, targets]`.
        - `y_pred`: Floats `[batch]`, [batch, 1] or `[batch, targets]`.
        - `sample_weight`: Weights `[batch]`. A row of weight 2 counts as two rows. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If `capacity` is not a positive integer, or if the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.PearsonCorrelation()
    metric.update_state([1.0, 2.0, 3.0], [[0.5], [0.0], [1.0]])
    float(metric.result())  # 0.5
    ```
    """

    def __init__(self, capacity: int = 32_768, *, name: str = "pearson_correlation", dtype: Any = None):
        super().__init__(capacity, name, dtype)

    def score(self, true: Any, given: Any, weights: Any) -> Any:
        return _correlation(true, given, weights)


@keras.saving.register_keras_serializable(package="keras_transfer")
class SpearmanCorrelation(Correlation):
    """The Spearman rank correlation between targets and outputs of a regression, over all batches.

    Equals `scipy.stats.spearmanr`. Equal values share the mean of their ranks, and the result is NaN if all targets or
    all outputs are equal. For several targets per row, the result is the mean of their correlations. Each result sorts
    all rows.

    Args:
        capacity: Integer. Maximum number of rows. The result is NaN if there are more, and a warning says so.
            Defaults to `32768`.
        name: String. Name of the metric. Defaults to `"spearman_correlation"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Floats `[batch]`, [batch, 1] or `[batch, targets]`.
        - `y_pred`: Floats `[batch]`, [batch, 1] or `[batch, targets]`.
        - `sample_weight`: Weights `[batch]`. A row of weight 2 counts as two rows. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If `capacity` is not a positive integer, or if the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.SpearmanCorrelation()
    metric.update_state([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 9.0, 0.3])
    float(metric.result())  # 0.8
    ```
    """

    def __init__(self, capacity: int = 32_768, *, name: str = "spearman_correlation", dtype: Any = None):
        super().__init__(capacity, name, dtype)

    def score(self, true: Any, given: Any, weights: Any) -> Any:
        return _correlation(midranks(true, weights), midranks(given, weights), weights)


def _correlation(true, given, weights):
    """Returns the weighted Pearson correlation, or NaN if there is none."""
    total = ops.sum(weights)

    def deviations(values):
        # Subtract one of the values first, so that equal values have a deviation of exactly 0.
        values = values - ops.max(ops.where(weights > 0, values, float("-inf")))
        values = ops.where(weights > 0, values, 0.0)
        return values - ops.sum(weights * values) / total

    true, given = deviations(true), deviations(given)
    spread = ops.sqrt(ops.sum(weights * true**2)) * ops.sqrt(ops.sum(weights * given**2))
    return ops.clip(ops.sum(weights * true * given) / spread, -1.0, 1.0)
