"""Metrics from three counts per class: its correct predictions, its labels, and its predictions."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, integer, one_of
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.metrics.rows import class_rows, count_classes

AVERAGES = ("macro", "weighted", "micro", "binary", None)


class ClassCounts(SavedByArguments, keras.metrics.Metric):
    """Base class of metrics computed from counts per class, at one threshold (one half) or one for each class.

    Strategies add up the counts of their replicas.
    """

    def __init__(self, threshold, name, dtype):
        super().__init__(name=name, dtype=dtype)
        values = np.asarray(0.5 if threshold is None else threshold, "float64")
        rule = "`threshold` must be a probability from 0 to 1, or a list of one for each class."
        expect(values.ndim <= 1 and ((values >= 0) & (values <= 1)).all(), rule, threshold=threshold)
        self.threshold = threshold if threshold is None else values.tolist()
        self._thresholds = values.astype("float32")
        self.counts = self.several = None

    def build_for(self, true_shape: tuple[int, ...], shape: tuple[int, ...]) -> None:
        """Creates the counts at the first call. `update_state` calls this.

        Args:
            true_shape: Tuple of integers. Shape of the labels.
            shape: Tuple of integers. Shape of the logits.
        """
        if self.counts is not None:
            return
        classes, several = count_classes(true_shape, shape)
        self.check_classes(classes, several)
        if self.threshold is not None and self._thresholds.shape not in ((), (classes,) if several else ()):
            raise ValueError(
                "`threshold` must be one number, or one for each of several labels per row. "
                f"Received: {len(self.threshold)} thresholds for {classes} classes"
            )
        rule = (
            "`threshold` cannot be used with one label per row of more than two classes, because the prediction is "
            "the most likely class."
        )
        expect(self.threshold is None or classes <= 2 or several, rule, threshold=self.threshold, classes=classes)
        self.several = several
        self.counts = self.add_variable((3, classes), "zeros", dtype="float32", name="counts")

    def check_classes(self, classes: int, several: bool) -> None:
        """Raises a `ValueError` if the metric does not exist for this number of classes.

        Subclasses with such a limit override this. By default, any number of classes is valid.

        Args:
            classes: Integer. Number of classes.
            several: Boolean. Whether a row can have several labels.
        """

    def update_state(self, y_true, y_pred, sample_weight=None):
        true, logits, weights = class_rows(y_true, y_pred, sample_weight)
        self.build_for(true.shape, logits.shape)
        classes = logits.shape[1]
        thresholds = ops.convert_to_tensor(self._thresholds)
        if self.several:
            given = ops.cast(ops.sigmoid(logits) >= thresholds, "float32")
        else:
            likely = ops.argmax(logits, axis=-1)
            if self.threshold is not None:
                likely = ops.sigmoid(logits[:, 1] - logits[:, 0]) >= thresholds
            given = ops.one_hot(ops.cast(likely, "int32"), classes, dtype="float32")
            true = ops.one_hot(true, classes, dtype="float32")
        rows = ops.stack([true * given, true, given])
        undefined = ops.any(ops.isnan(logits), axis=-1) & (weights > 0)
        weights = ops.where(undefined, float("nan"), weights)
        self.counts.assign_add(ops.sum(rows * weights[:, None], axis=1))

    def result(self):
        if self.counts is None:
            return ops.zeros((), self.dtype)
        counts = ops.convert_to_tensor(self.counts)
        score = self.score(counts[0], counts[1], counts[2])
        return ops.cast(ops.where(ops.any(ops.isnan(counts)), float("nan"), score), self.dtype)

    def score(self, right: Any, true: Any, given: Any) -> Any:
        """Computes the metric.

        Args:
            right: Float32 tensor `[classes]`. Number of correctly predicted rows.
            true: Float32 tensor `[classes]`. Number of rows with the label.
            given: Float32 tensor `[classes]`. Number of rows for which the class is predicted.

        Returns:
            A float32 scalar, or a tensor of shape `[classes]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")


class AveragedCounts(ClassCounts):
    """Base class of metrics per class, averaged over classes as scikit-learn does, with `zero_division=0`."""

    default_name: str

    @expects(average=one_of(*AVERAGES), class_id=integer(0, 1))
    def __init__(
        self,
        average: str | None = "macro",
        *,
        threshold: float | Sequence[float] | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(threshold, name or self.default_name, dtype)
        fits = class_id is None or average == "binary"
        expect(fits, "`class_id` requires `average='binary'`.", class_id=class_id, average=average)
        self.average = average
        self.class_id = class_id

    def check_classes(self, classes: int, several: bool) -> None:
        if self.average == "binary" and (classes > 2 or several):
            kind = f"several labels per row of {classes} classes" if several else f"{classes} classes"
            raise ValueError(f"`average='binary'` requires two classes and one label per row. Received: {kind}")

    def score(self, right: Any, true: Any, given: Any) -> Any:
        if self.average == "micro":
            return self.ratio(ops.sum(right), ops.sum(true), ops.sum(given))
        scores = self.ratio(right, true, given)
        if self.average is None:
            return scores
        if self.average == "binary":
            return scores[1 if self.class_id is None else self.class_id]
        if self.average == "weighted":
            return ops.divide_no_nan(ops.sum(scores * true), ops.sum(true))
        # As in scikit-learn, a class that occurs in no labels or predictions counts only if rows may have several
        # labels.
        occurs = ops.ones_like(true) if self.several else ops.cast(true + given > 0, "float32")
        return ops.divide_no_nan(ops.sum(scores * occurs), ops.sum(occurs))

    def ratio(self, right: Any, true: Any, given: Any) -> Any:
        """Computes the metric of each class.

        Args:
            right: Float32 tensor `[classes]`. Number of correctly predicted rows.
            true: Float32 tensor `[classes]`. Number of rows with the label.
            given: Float32 tensor `[classes]`. Number of rows for which the class is predicted.

        Returns:
            A float32 tensor of shape `[classes]`, 0 where the metric is not defined.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `ratio`.")


@keras.saving.register_keras_serializable(package="keras_transfer")
class Precision(AveragedCounts):
    """The fraction of the rows predicted as a class that belong to it, over all batches, from logits.

    Equals `sklearn.metrics.precision_score` with `zero_division=0`. The arguments and shapes are the same as in
    `F1Score`.

    Args:
        average: String. `"macro"`, `"micro"`, `"weighted"` or `"binary"`, or `None` for one value per class. Defaults
            to `"macro"`.
        threshold: Float from 0 to 1, or list of floats, one for each class. Probability from which a class is
            predicted. Defaults to `None`, one half.
        class_id: Integer. The class of `average="binary"`. Defaults to `None`, class 1.
        name: String. Name of the metric. Defaults to `None`, `"precision"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integer labels `[batch]`, or 0 and 1 `[batch, classes]` for several labels per row.
        - `y_pred`: Logits `[batch, classes]`, or `[batch]` for two classes.

    Raises:
        ValueError: If an argument or a shape is invalid, as for `F1Score`.

    Example:
    ```python
    metric = keras_transfer.metrics.Precision("binary")
    metric.update_state([1, 0, 1], [2.0, 0.5, -1.0])
    float(metric.result())  # 0.5
    ```
    """

    default_name = "precision"

    def ratio(self, right: Any, true: Any, given: Any) -> Any:
        return ops.divide_no_nan(right, given)


@keras.saving.register_keras_serializable(package="keras_transfer")
class Recall(AveragedCounts):
    """The fraction of the rows of a class that are predicted correctly, over all batches, from logits.

    Equals `sklearn.metrics.recall_score` with `zero_division=0`. The arguments and shapes are the same as in `F1Score`.

    Args:
        average: String. `"macro"`, `"micro"`, `"weighted"` or `"binary"`, or `None` for one value per class. Defaults
            to `"macro"`.
        threshold: Float from 0 to 1, or list of floats, one for each class. Probability from which a class is
            predicted. Defaults to `None`, one half.
        class_id: Integer. The class of `average="binary"`. Defaults to `None`, class 1.
        name: String. Name of the metric. Defaults to `None`, `"recall"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integer labels `[batch]`, or 0 and 1 `[batch, classes]` for several labels per row.
        - `y_pred`: Logits `[batch, classes]`, or `[batch]` for two classes.

    Raises:
        ValueError: If an argument or a shape is invalid, as for `F1Score`.

    Example:
    ```python
    metric = keras_transfer.metrics.Recall(average=None)
    metric.update_state([0, 0, 1], [[2.0, 1.0], [0.0, 3.0], [0.0, 1.0]])
    metric.result()  # [0.5, 1.0]
    ```
    """

    default_name = "recall"

    def ratio(self, right: Any, true: Any, given: Any) -> Any:
        return ops.divide_no_nan(right, true)


@keras.saving.register_keras_serializable(package="keras_transfer", name="F1")
class F1Score(AveragedCounts):
    """The harmonic mean of precision and recall, over all batches, from logits.

    Equals `sklearn.metrics.f1_score` with `zero_division=0`.

    Args:
        average: String or None. `"macro"` (the mean over the classes that occur in labels or predictions), `"weighted"`
            (weighted by the number of rows that have the class), `"micro"` (of the sums over classes), `"binary"` (of
            `class_id` alone), or None for a result `[classes]`. Defaults to `"macro"`.
        threshold: Float from 0 to 1, or a list of one for each class of a model with several labels per row. A label is
            predicted for a row if its probability, the sigmoid of the logit, is at least this, as in `TextClassifier`.
            With two classes, the threshold applies to class 1. Defaults to `None`: one half for several labels per row,
            and the most likely class otherwise.
        class_id: Integer, 0 or 1. The class for `average="binary"`. Defaults to `None`, class 1.
        name: String. Name of the metric. Defaults to `None`, `"f1"`.
        dtype: Dtype of the result. Counts are float32 and exact up to 16 million. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]` or `[batch, length]`, or, if a row may have several labels, ones and zeros
          `[batch, classes]`. Rows with a negative integer do not count. The result is NaN after a label that is not
          below the number of classes (torch raises an error), or a logit that is NaN. One-hot labels count as
          several labels per row: for a softmax loss, use integers.
        - `y_pred`: Logits `[batch, classes]` or `[batch, length, classes]`. For two classes, also `[batch]` or `[batch,
          1]`, the logit of class 1.
        - `sample_weight`: Weights `[batch]` or `[batch, length]`. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If an argument is invalid, if the shapes do not match, if `average="binary"` and there are more than
            two classes, or if there is a threshold although only the most likely of more than two classes is predicted.

    Example:
    ```python
    metric = keras_transfer.metrics.F1Score("macro")
    metric.update_state([0, 0, 1], [[2.0, 1.0], [0.0, 3.0], [0.0, 1.0]])
    float(metric.result())  # 0.666...

    labels, logits = [[1, 0, 1], [0, 1, 0]], [[3.0, -1.0, -2.0], [-1.0, 0.5, 1.0]]
    metric = keras_transfer.metrics.F1Score("micro", threshold=0.7)
    metric.update_state(labels, logits)
    float(metric.result())  # 0.4
    ```
    """

    default_name = "f1"

    def ratio(self, right: Any, true: Any, given: Any) -> Any:
        return ops.divide_no_nan(2 * right, true + given)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MatthewsCorrelation(ClassCounts):
    """The Matthews correlation coefficient of labels and predictions, for two or more classes, from logits.

    Equals `sklearn.metrics.matthews_corrcoef`. It is 0 if all labels or all predictions are the same.

    Args:
        name: String. Name of the metric. Defaults to `"matthews_correlation"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]` or `[batch, length]`. Rows with a negative integer do not count.
        - `y_pred`: Logits as in `F1Score`.
        - `sample_weight`: Weights `[batch]` or `[batch, length]`. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If the shapes do not match, or if a row has several labels.

    Example:
    ```python
    metric = keras_transfer.metrics.MatthewsCorrelation()
    metric.update_state([1, 1, 0, 0], [3.0, -1.0, -2.0, -0.5])
    float(metric.result())  # 0.577...
    ```

    Source: Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004.
    """

    def __init__(self, *, name: str = "matthews_correlation", dtype: Any = None):
        super().__init__(None, name, dtype)

    def check_classes(self, classes: int, several: bool) -> None:
        expect(not several, "The Matthews correlation requires one integer label per row.", classes=classes)

    def score(self, right: Any, true: Any, given: Any) -> Any:
        # These are sums over classes of products whose terms do not cancel if one class is rare.
        total = ops.sum(true)
        others = total - true - given + right
        covariance = ops.sum(right * others - (given - right) * (true - right))
        spread = ops.sqrt(ops.sum(true * (total - true))) * ops.sqrt(ops.sum(given * (total - given)))
        return ops.clip(ops.divide_no_nan(covariance, spread), -1.0, 1.0)
