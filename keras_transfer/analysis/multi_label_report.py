"""The analysis of predictions with several labels for each row: scores, calibration, slices and examples."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import scores, tables
from keras_transfer.analysis.base_report import Report
from keras_transfer.core.arrays import expect_each
from keras_transfer.core.expect import expect
from keras_transfer.data import are_empty, check_not_positions, has_names, in_order_of_names, multi_hot
from keras_transfer.metrics import expected_calibration_error
from keras_transfer.tasks import check_multi_hot


class MultiLabelReport(Report):
    """A report on the predictions of any classifier with several labels for each row, which `report` returns.

    `print(report)` shows it as text, and `report.to_html(path)` writes it as a page with pictures.

    Args:
        y_true: Lists of names, or an array `[rows, labels]` of zeros and ones.
        y_pred: Predictions of the classifier, in one of these forms.
        label_names: List of strings. Names of the labels.
        probabilities: Array `[rows, labels]`. Probability of each label. Defaults to `None`: the report then has no
            calibration and no examples.
        texts: The rows as a list of texts, or as a tuple of two columns of texts. Defaults to `None`.
        slices: Dict from names to slices of the data, as for `report`. Defaults to `None`, for slices by length only.
        seed: Integer. Seed of the bootstrap. Defaults to `0`.
        num_examples: Integer. Number of examples of each kind. Defaults to `10`.
        resamples: Integer. Number of resamples of the bootstrap. Defaults to `1000`.
        confidence: Float between 0 and 1. Confidence of the intervals. Defaults to `0.95`.

    Attributes:
        metrics: Dict from `"micro_f1"` (over all labels of all rows), `"macro_f1"` (the mean over the labels that occur
            in labels or predictions) and `"subset_accuracy"` (the fraction of rows with exactly the right labels) to
            `(value, low, high)`. The interval of the subset accuracy is Wilson's. The others are percentile bootstrap
            intervals.
        calibration_error: Float. Expected calibration error in 15 bins (Guo et al. 2017), NaN without probabilities.
            Each label of each row counts as a prediction of two classes, predicted if its probability is above 0.5.
        classes: Dict from the name of each label to a dict of its `precision` and `recall`, its `f1` as
            `(value, low, high)`, and its number of rows, `count`. Scores are 0 where they are undefined.
        reliability: List of `(low, high, count, confidence, accuracy)`, the bins of the reliability diagram, or None.
        slices: List of `(name, rows, metrics, calibration_error)`.
        hardest: List of `(position, label, predicted, probability, label_probability, text)`, the examples whose labels
            have the lowest probability, the product over all labels, in the set or not.
        confident_mistakes: List of the same form, the wrong predictions with the highest probability.
        labels, predicted: Boolean arrays [rows, labels].
        probabilities: Float array [rows, labels], or None.

    Raises:
        ValueError: If the rows do not match, if there are none, if a label is unknown, if a value of `y_true` or
            `y_pred` is neither 0 nor 1, or if `probabilities` has a different shape or other values.

    Example:
    ```python
    labels, predicted = [["film"], ["film", "fun"], []], [["film"], ["film"], ["fun"]]
    report = keras_transfer.analysis.MultiLabelReport(labels, predicted, label_names=["film", "fun"])
    report.metrics["micro_f1"].value, report.classes["film"]["f1"].value  # 0.667, 1.0
    ```
    """

    SLICE_METRICS = ("subset_accuracy", "micro_f1")
    COUNTED = "labels"

    def __init__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        label_names: Sequence[str],
        probabilities: Any = None,
        texts: Any = None,
        slices: dict[str, Any] | None = None,
        seed: int = 0,
        num_examples: int = 10,
        resamples: int = 1000,
        confidence: float = 0.95,
    ) -> None:
        super().__init__(seed, num_examples, resamples, confidence)
        self.label_names = names = [str(name) for name in (() if label_names is None else label_names)]
        rule = "`label_names` must be different names, at least one."
        expect(names and len(set(names)) == len(names), rule, label_names=names)
        self.labels, self.predicted = _chosen(y_true, names, "y_true"), _chosen(y_pred, names, "y_pred")
        rule = "Each row must have labels and predictions, and there must be at least one row."
        count, other = len(self.labels), len(self.predicted)
        expect(0 < count == other, rule, labels=count, predictions=other)
        self.probabilities = _probabilities(probabilities, self.labels.shape)
        texts = self._rows_of(texts)

        self._right = (self.labels == self.predicted).all(axis=1)
        everything = np.arange(count)
        intervals = self._f1_scores(everything)
        chosen = self.labels & self.predicted, self.labels, self.predicted
        self.classes = self._class_scores(*(each.sum(axis=0) for each in chosen))
        for place, values in enumerate(self.classes.values()):
            values["f1"] = intervals[place]
        self.metrics, self.calibration_error = self._scores(everything, intervals)
        self.reliability, self.hardest, self.confident_mistakes = None, [], []
        if self.probabilities is not None:
            self.reliability = scores.reliability(*self._decisions(everything))
            chances = self.probabilities, 1 - self.probabilities
            both = (np.where(each, *chances) for each in (self.predicted, self.labels))
            likely, of_labels = (np.log(np.maximum(each, scores.SMALLEST)).sum(axis=1) for each in both)
            found = self._find_examples(texts, self._right, likely, of_labels, probability=math.exp)
            self.hardest, self.confident_mistakes = found
        self.slices = self._find_slices(texts, slices)

    def _f1_scores(self, rows):
        """Returns the micro and macro F1 of some rows, and the F1 of each label by its position, with intervals."""
        chosen = [self.labels & self.predicted, self.labels, self.predicted]
        chosen = [each[rows].astype("float64") for each in chosen]  # Sums of booleans are slow.
        of_all = tuple(each.sum(axis=0) for each in chosen)

        def score(drawn):
            times = np.bincount(drawn, minlength=len(rows)).astype("float64")  # How often each row was drawn.
            # The product is so small that, with `@`, the BLAS threads would wait for each other if a core is busy.
            counts = [np.einsum("r,rl->l", times, each) for each in chosen]
            f1 = scores.scores_of_counts(*counts)["f1"]
            return {
                "micro_f1": scores.scores_of_counts(*(each.sum() for each in counts))["f1"].item(),
                "macro_f1": scores.macro_f1(*counts, of_all),
                **dict(enumerate(f1.tolist())),
            }

        return scores.scores_with_intervals(score, len(rows), *self._resampling)

    def _scores(self, rows, intervals=None):
        """Returns the metrics and the calibration error of some rows, given what `_f1_scores` returns for them."""
        if not len(rows):
            return {}, float("nan")
        intervals = self._f1_scores(rows) if intervals is None else intervals
        metrics = {name: intervals[name] for name in ("micro_f1", "macro_f1")}
        exact = int(self._right[rows].sum())
        metrics["subset_accuracy"] = scores.fraction_with_interval(exact, len(rows), self.confidence)
        if self.probabilities is None:
            return metrics, float("nan")
        return metrics, expected_calibration_error(*self._decisions(rows))

    def _decisions(self, rows):
        """Returns whether each label of some rows is chosen, and its probability, in arrays of one axis."""
        return self.labels[rows].reshape(-1).astype(int), self.probabilities[rows].reshape(-1)

    def _name(self, label):
        return tuple(name for name, chosen in zip(self.label_names, label) if chosen)

    def _first_tables(self):
        right = f"{int(self._right.sum()):,} have exactly the right labels"
        title = f"{len(self.labels):,} rows, {len(self.label_names)} labels, {right}"
        return {"metrics": tables.metrics_table(self, title), "labels": tables.classes_table(self, "label", "labels")}


def _chosen(rows, names, argument):
    """Returns lists of names, or zeros and ones, as a boolean array [rows, labels]."""
    try:
        rows = in_order_of_names(rows, names)
        if has_names(rows) or are_empty(rows):
            return multi_hot(rows, names).astype(bool)
        check_not_positions(rows, names)
        check_multi_hot(rows, len(names))
    except ValueError as error:
        raise ValueError(f"Invalid value for argument `{argument}`. {error}") from None
    values = np.asarray(rows).reshape(-1, len(names))
    rule = (
        f"`{argument}` must be lists of names, or zeros and ones. For probabilities, pass "
        "`model.labels_of(probabilities)`."
    )
    expect_each((values <= 0) | (values >= 1), rule, values)
    return values > 0


def _probabilities(values, shape):
    """Returns probabilities as a float64 array, None for None."""
    if values is None:
        return None
    try:
        values = np.asarray(values, "float64")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`probabilities` must be an array of numbers [rows, labels]. {error}") from None
    rule = f"`probabilities` must have the shape [rows, labels], {shape}."
    expect(values.shape == shape, rule, probabilities=values.shape)
    expect_each((values >= 0) & (values <= 1), "`probabilities` must be numbers between 0 and 1.", values)
    return values
