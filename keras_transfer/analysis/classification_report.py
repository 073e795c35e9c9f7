"""The analysis of a classifier's predictions: scores with intervals, classes, calibration, slices and examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import scores, tables
from keras_transfer.analysis.base_report import Report
from keras_transfer.core.arrays import expect_each
from keras_transfer.core.expect import expect
from keras_transfer.data import has_names, positions_of, positions_of_numbers
from keras_transfer.metrics import expected_calibration_error
from keras_transfer.tasks import check_class_labels


class ClassificationReport(Report):
    """A report on the predictions of any classifier with one label for each row, which `report` returns.

    `print(report)` shows it as text, and `report.to_html(path)` writes it as a page with pictures.

    Args:
        y_true: List or array `[rows]` of integers, or of class names.
        y_pred: Array `[rows, classes]`. Outputs of the classifier.
        texts: The rows as a list of texts, or as a tuple of two columns of texts. Defaults to `None`.
        label_names: List of strings. Class names. Defaults to `None`, for the class numbers as names.
        slices: Dict from names to slices of the data, as for `report`. Defaults to `None`, for slices by length only.
        seed: Integer. Seed of the bootstrap. Defaults to `0`.
        num_examples: Integer. Number of examples of each kind. Defaults to `10`.
        resamples: Integer. Number of resamples of the bootstrap. Defaults to `1000`.
        confidence: Float between 0 and 1. Confidence of the intervals. Defaults to `0.95`.
        from_logits: Boolean. Whether `y_pred` contains logits rather than probabilities. Defaults to `True`.

    Attributes:
        metrics: Dict from `"accuracy"`, `"macro_f1"` (over the classes that occur in labels or predictions),
            `"matthews_correlation"` and `"log_loss"` to `(value, low, high)`. The interval of the accuracy is Wilson's.
            The others are percentile bootstrap intervals.
        calibration_error: Float. Expected calibration error in 15 bins (Guo et al. 2017), without an interval.
        classes: Dict from the name of each class to a dict of its `precision`, `recall`, `f1` and number of rows,
            `count`.
        confusion_matrix: Integer array [classes, classes]. Number of rows by label and by predicted class.
        reliability: List of `(low, high, count, confidence, accuracy)`, the bins of the reliability diagram.
        slices: List of `(name, rows, metrics, calibration_error)`.
        hardest: List of `(position, label, predicted, probability, label_probability, text)`, the examples whose label
            has the lowest probability.
        confident_mistakes: List of the same form, the wrong predictions with the highest probability.
        labels, predicted: Integer arrays [rows].
        probabilities: Float array [rows, classes].

    Raises:
        ValueError: If the shapes do not match, if a label is unknown, or if values are no logits or probabilities.

    Example:
    ```python
    logits = [[2.0, -1.0], [0.5, 0.1], [-1.0, 3.0], [1.0, -2.0]]
    report = keras_transfer.analysis.ClassificationReport([0, 1, 1, 0], logits, label_names=["bad", "good"])
    report.metrics["accuracy"].value  # 0.75
    ```
    """

    SLICE_METRICS = ("accuracy", "macro_f1")

    def __init__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        texts: Any = None,
        label_names: Sequence[str] | None = None,
        slices: dict[str, Any] | None = None,
        seed: int = 0,
        num_examples: int = 10,
        resamples: int = 1000,
        confidence: float = 0.95,
        from_logits: bool = True,
    ) -> None:
        super().__init__(seed, num_examples, resamples, confidence)
        self.probabilities = _probabilities(y_pred, from_logits)
        count, classes = self.probabilities.shape
        names = range(classes) if label_names is None else label_names
        self.label_names = names = [str(name) for name in names]
        rule = f"`label_names` must be {classes} different names, one for each class."
        expect(len(set(names)) == len(names) == classes, rule, label_names=self.label_names)
        self.labels = class_positions(y_true, self.label_names)
        expect(len(self.labels) == count, "Each row must have a label.", labels=len(self.labels), count=count)
        texts = self._rows_of(texts)

        self.predicted = self.probabilities.argmax(axis=-1)
        self._of_labels = self.probabilities[np.arange(count), self.labels]
        self._right = self.predicted == self.labels
        self.confusion_matrix = scores.confusion_matrix(self.labels, self.predicted, classes)
        self.classes = self._class_scores(*scores.counts_of(self.confusion_matrix))
        self.metrics, self.calibration_error = self._scores(np.arange(count))
        self.reliability = scores.reliability(self.labels, self.probabilities)
        self.slices = self._find_slices(texts, slices)
        found = self._find_examples(texts, self._right, self.probabilities.max(axis=-1), self._of_labels)
        self.hardest, self.confident_mistakes = found

    def _scores(self, rows):
        """Returns the metrics and the calibration error of some rows."""
        if not len(rows):
            return {}, float("nan")
        losses = -np.log(np.maximum(self._of_labels[rows], scores.SMALLEST))
        labels, predicted, count = self.labels[rows], self.predicted[rows], len(self.label_names)
        of_all = scores.counts_of(scores.confusion_matrix(labels, predicted, count))

        def score(drawn):
            matrix = scores.confusion_matrix(labels[drawn], predicted[drawn], count)
            return scores.overall_scores(matrix, losses[drawn], of_all)

        metrics = scores.scores_with_intervals(score, len(rows), *self._resampling)
        metrics["accuracy"] = scores.fraction_with_interval(int(self._right[rows].sum()), len(rows), self.confidence)
        return metrics, expected_calibration_error(labels, self.probabilities[rows])

    def _name(self, label):
        return self.label_names[label]

    def _first_tables(self):
        right = f"{int(self._right.sum()):,} predictions are right"
        title = f"{len(self.labels):,} rows, {len(self.label_names)} classes, {right}"
        return {
            "metrics": tables.metrics_table(self, title),
            "classes": tables.classes_table(self),
            "confusion": tables.confusion_table(self),
        }


def class_positions(labels, names):
    """Returns labels as an integer array of positions in the list of names."""
    if has_names(labels):
        return positions_of(labels, names).astype(int)
    labels = positions_of_numbers(labels, names)
    check_class_labels(labels, len(names), vectors=False)
    return np.asarray(labels).reshape(-1).astype(int)


def _probabilities(logits, from_logits):
    """Returns float64 probabilities [rows, classes]."""
    values = np.asarray(logits, "float64")
    rule = "`y_pred` must have the shape [rows, classes], with at least one row and two classes."
    expect(values.ndim == 2 and values.shape[1] >= 2 and len(values), rule, y_pred=values.shape)
    expect_each(np.isfinite(values).all(axis=1), "`y_pred` must be finite numbers.", values)
    likely = (values >= 0).all(axis=1) & (np.abs(values.sum(axis=1) - 1) < 1e-3)
    if from_logits:
        rule = "The outputs are probabilities, which are not negative and whose sum is 1. Pass `from_logits=False`."
        expect(not likely.all(), rule, y_pred=values[0])
        return scores.softmax(values)
    rule = "Probabilities must be at least 0, and their sum must be 1. For logits, pass `from_logits=True`."
    expect_each(likely, rule, values)
    return values
