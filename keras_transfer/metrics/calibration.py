"""The expected calibration error: how much probabilities differ from the fraction of predictions that are right."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import expect_each
from keras_transfer.core.expect import expects, integer
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.metrics.rows import class_rows, count_classes


@keras.saving.register_keras_serializable(package="keras_transfer")
class ExpectedCalibrationError(SavedByArguments, keras.metrics.Metric):
    """The expected calibration error over all batches, from logits.

    The probability of each row's most likely class is put into one of `num_bins` intervals of equal width. The result
    is the mean absolute difference between the probability and the accuracy of the intervals, weighted by their numbers
    of rows. It is 0 without rows. `expected_calibration_error` computes the same from arrays of probabilities.

    Args:
        num_bins: Integer. Number of intervals between 0 and 1. Defaults to `15`.
        name: String. Name of the metric. Defaults to `"expected_calibration_error"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]` or `[batch, length]`. Rows with a negative integer do not count. The result is
          NaN after a label that is not below the number of classes, or a logit that is NaN.
        - `y_pred`: Logits `[batch, classes]` or `[batch, length, classes]`. For two classes, also `[batch]` or `[batch,
          1]`, the logit of class 1.
        - `sample_weight`: Weights `[batch]` or `[batch, length]`. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If the shapes do not match, or if a row has several labels.

    Example:
    ```python
    metric = keras_transfer.metrics.ExpectedCalibrationError()
    metric.update_state([1, 0], [[0.0, 9.0], [0.0, 9.0]])
    float(metric.result())  # 0.4998...
    ```

    Source: Guo et al., "On Calibration of Modern Neural Networks", 2017.
    """

    @expects(num_bins=integer(1))
    def __init__(self, num_bins: int = 15, *, name: str = "expected_calibration_error", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.num_bins = num_bins
        # For each bin: the weight of its rows, their probabilities, and how many are right.
        self.bins = self.add_variable((3, num_bins), "zeros", dtype="float32", name="bins")

    def update_state(self, y_true, y_pred, sample_weight=None):
        true, logits, weights = class_rows(y_true, y_pred, sample_weight)
        if len(true.shape) == 2:
            classes, _ = count_classes(true.shape, logits.shape)
            raise ValueError(
                "The expected calibration error requires one integer label per row. Received: labels of shape "
                f"[batch, {classes}]"
            )
        probabilities = ops.max(ops.softmax(logits), axis=-1)
        right = ops.cast(ops.cast(ops.argmax(logits, axis=-1), "int32") == true, "float32")
        # The upper end of an interval belongs to it.
        places = ops.cast(ops.ceil(probabilities * self.num_bins), "int32") - 1
        places = ops.one_hot(ops.clip(places, 0, self.num_bins - 1), self.num_bins, dtype="float32")
        rows = ops.stack([ops.ones_like(weights), probabilities, right]) * weights
        self.bins.assign_add(ops.matmul(ops.where(weights > 0, rows, 0.0), places))

    def result(self):
        bins = ops.convert_to_tensor(self.bins)
        error = ops.divide_no_nan(ops.sum(ops.abs(bins[1] - bins[2])), ops.sum(bins[0]))
        return ops.cast(error, self.dtype)


def expected_calibration_error(y_true: Any, y_pred: Any, *, num_bins: int = 15, sample_weight: Any = None) -> float:
    """Returns the expected calibration error of probabilities.

    Args:
        y_true: Integers `[rows]`. Rows with a negative integer do not count.
        y_pred: Floats `[rows, classes]`. For two classes, also `[rows]` or `[rows, 1]`, the probability of class 1.
        num_bins: Integer. Number of intervals of equal width between 0 and 1. Defaults to `15`.
        sample_weight: Weights `[rows]`. Defaults to `None`, 1 for all.

    Returns:
        A float, 0 without rows.

    Raises:
        ValueError: If `num_bins` is not a positive integer, if the shapes do not match, if a value is not a
            probability, or if a label is not below the number of classes.

    Example:
    ```python
    keras_transfer.metrics.expected_calibration_error([1, 0], [0.8, 0.8])  # 0.3
    ```

    Source: Guo et al., "On Calibration of Modern Neural Networks", 2017.
    """
    bins = calibration_bins(y_true, y_pred, num_bins=num_bins, sample_weight=sample_weight)
    total = bins["weight"].sum()
    gaps = bins["weight"] * np.abs(bins["probability"] - bins["accuracy"])
    return float(gaps.sum() / total) if total else 0.0


@expects(num_bins=integer(1))
def calibration_bins(y_true: Any, y_pred: Any, *, num_bins: int = 15, sample_weight: Any = None) -> dict:
    """Returns the points of a reliability diagram: the mean probability and accuracy in intervals of equal width.

    Args:
        y_true: Integers `[rows]`. Rows with a negative integer do not count.
        y_pred: Floats `[rows, classes]`. For two classes, also `[rows]` or `[rows, 1]`, the probability of class 1.
        num_bins: Integer. Number of intervals of equal width between 0 and 1. Each includes its upper end. Defaults to
            `15`.
        sample_weight: Weights `[rows]`. Defaults to `None`, 1 for all.

    Returns:
        A dict of float64 arrays [num_bins]: `weight` of the rows whose most likely class has a probability in the
        interval, their mean `probability`, and their `accuracy`. The last two are 0 if there are no rows.

    Raises:
        ValueError: If the shapes do not match, if a value is not a probability, or if a label is not below the number
            of classes.

    Example:
    ```python
    bins = keras_transfer.metrics.calibration_bins([1, 0, 1], [0.8, 0.9, 0.2], num_bins=2)
    bins["weight"], bins["probability"], bins["accuracy"]  # [0, 3], [0, 0.833...], [0, 0.333...]
    ```
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred, "float64")
    weights = np.ones(len(y_true)) if sample_weight is None else np.asarray(sample_weight, "float64")
    if y_pred.ndim not in (1, 2) or not y_true.shape == weights.shape == y_pred.shape[:1]:
        raise ValueError(
            "`y_true` and `sample_weight` must have the shape [rows], and `y_pred` [rows, classes] or [rows]. "
            f"Received: {y_true.shape}, {weights.shape} and {y_pred.shape}"
        )
    rule = "`y_pred` must be probabilities between 0 and 1. Use the softmax of logits."
    expect_each((y_pred >= 0) & (y_pred <= 1), rule, y_pred)
    if y_pred.ndim == 1 or y_pred.shape[1] == 1:
        y_pred = y_pred.reshape(-1)
        y_pred = np.stack([1 - y_pred, y_pred], axis=1)
    classes = y_pred.shape[1]
    rule = f"`y_true` must be integers below {classes}, the number of classes."
    expect_each((y_true == np.floor(y_true)) & (y_true < classes), rule, y_true)
    weights = np.where(y_true >= 0, weights, 0.0)
    highest, right = y_pred.max(axis=1), y_pred.argmax(axis=1) == y_true
    places = np.clip(np.ceil(highest * num_bins).astype(int) - 1, 0, num_bins - 1)
    weight, probability, accuracy = (
        np.bincount(places, weights * values, num_bins) for values in (np.ones(len(y_true)), highest, right)
    )
    whole = np.where(weight > 0, weight, 1.0)
    return {"weight": weight, "probability": probability / whole, "accuracy": accuracy / whole}
