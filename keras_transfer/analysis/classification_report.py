"""What a classifier gets right and wrong: scores with intervals, classes, calibration, slices and examples."""

import html
import pathlib
from typing import NamedTuple

import numpy as np

from keras_transfer.analysis import page, scores, slices, tables
from keras_transfer.files import atomic_file
from keras_transfer.metrics import expected_calibration_error
from keras_transfer.tasks.class_names import has_names, positions_of
from keras_transfer.tasks.data_checks import check_class_labels


class Slice(NamedTuple):
    """The scores of a slice of the data.

    Attributes:
        name: String.
        rows: Integer array. The positions of its rows.
        metrics: Dict like `ClassificationReport.metrics`, empty without rows.
        calibration_error: Float, NaN without rows.
    """

    name: str
    rows: np.ndarray
    metrics: dict
    calibration_error: float


class Example(NamedTuple):
    """A row of the data and its prediction.

    Attributes:
        position: Integer. The position of the row.
        label, predicted: Strings. The names of the classes.
        probability: Float. Probability of the predicted class.
        label_probability: Float. Probability of the label.
        text: Tuple of one or two strings, or None if the report has no texts.
    """

    position: int
    label: str
    predicted: str
    probability: float
    label_probability: float
    text: tuple | None


class ClassificationReport:
    """A report on the predictions of any classifier with one label for each row, which `report` returns.

    `print(report)` shows it as text.

    Args:
        labels: List or array [rows] of integers, or of names of classes.
        logits: Array [rows, classes]. Outputs of the classifier.
        texts: What the rows are: texts, or a tuple of two columns of texts. Defaults to `None`.
        label_names, slices, seed, examples, resamples, confidence: As for `report`.
        from_logits: Boolean. Whether `logits` are logits. Otherwise they are probabilities. Defaults to `True`.

    Attributes:
        metrics: Dict from `"accuracy"`, `"macro_f1"` (over the classes that occur in labels or predictions),
            `"matthews_correlation"` and `"log_loss"` to `(value, low, high)`. The interval of the accuracy is Wilson's.
            The others are percentile bootstrap intervals.
        calibration_error: Float. Expected calibration error in 15 bins (Guo et al. 2017). It has no interval, since
            resampling increases it.
        classes: Dict from the name of each class to a dict of its `precision`, `recall` and `f1` and its number of
            rows, `count`.
        confusion_matrix: Integer array [classes, classes]. Number of rows by label and by predicted class.
        reliability: List of `(low, high, count, confidence, accuracy)`, the bins of the reliability diagram.
        slices: List of `(name, rows, metrics, calibration_error)`.
        hardest: List of `(position, label, predicted, probability, label_probability, text)`, the examples whose label
            has the lowest probability.
        confident_mistakes: List of the same form, the wrong predictions with the highest probability.
        labels, predicted: Integer arrays [rows].
        probabilities: Float array [rows, classes].

    Raises:
        ValueError: If the shapes do not match, if a label is unknown, if the values cannot be logits or probabilities,
            or if an argument is invalid.

    Example:
    ```python
    logits = [[2.0, -1.0], [0.5, 0.1], [-1.0, 3.0], [1.0, -2.0]]
    report = keras_transfer.analysis.ClassificationReport([0, 1, 1, 0], logits, label_names=["bad", "good"])
    report.metrics["accuracy"].value  # 0.75
    ```
    """

    def __init__(
        self,
        labels,
        logits,
        texts=None,
        label_names=None,
        slices=None,
        seed=0,
        examples=10,
        resamples=1000,
        confidence=0.95,
        from_logits=True,
    ):
        scores.check_resampling(resamples, confidence)
        if not isinstance(examples, int) or examples < 0:
            raise ValueError(f"`examples` must be an integer of at least 0. Received: examples={examples!r}")
        self.probabilities = _probabilities(logits, from_logits)
        count, classes = self.probabilities.shape
        names = range(classes) if label_names is None else label_names
        self.label_names = [str(name) for name in names]
        if len(set(self.label_names)) != classes or len(self.label_names) != classes:
            raise ValueError(
                f"`label_names` must be {classes} different names, one for each class. Received: {self.label_names}"
            )
        self.labels = _positions(labels, self.label_names)
        if len(self.labels) != count:
            raise ValueError(f"Each row must have a label. Received: {len(self.labels)} labels for {count} rows")
        self.confidence, self._resampling = confidence, (resamples, confidence, seed)
        self._texts = None if texts is None else list(zip(*(texts if isinstance(texts, tuple) else (texts,))))
        if texts is not None and len(self._texts) != count:
            raise ValueError(f"Each row must have a text. Received: {len(self._texts)} texts for {count} rows")

        self.predicted = self.probabilities.argmax(axis=-1)
        self._confidences = self.probabilities.max(axis=-1)
        self._of_labels = self.probabilities[np.arange(count), self.labels]
        self._right = self.predicted == self.labels
        self.confusion_matrix = scores.confusion_matrix(self.labels, self.predicted, classes)
        self.classes = self._class_scores()
        self.metrics, self.calibration_error = self._scores(np.arange(count))
        self.reliability = scores.reliability(self.labels, self.probabilities)
        self.slices = self._slices(slices)
        self.hardest = self._examples(np.argsort(self._of_labels, kind="stable")[:examples])
        wrong = np.flatnonzero(~self._right)
        self.confident_mistakes = self._examples(wrong[np.argsort(-self._confidences[wrong], kind="stable")][:examples])

    def _class_scores(self):
        columns = {**scores.class_scores(self.confusion_matrix), "count": self.confusion_matrix.sum(axis=1)}
        return {
            name: {column: values[place].item() for column, values in columns.items()}
            for place, name in enumerate(self.label_names)
        }

    def _scores(self, rows):
        """Returns the metrics and the calibration error of some rows."""
        if not len(rows):
            return {}, float("nan")
        losses = -np.log(np.maximum(self._of_labels[rows], scores.SMALLEST))
        labels, predicted = self.labels[rows], self.predicted[rows]

        def score(drawn):
            matrix = scores.confusion_matrix(labels[drawn], predicted[drawn], len(self.label_names))
            return scores.overall_scores(matrix, losses[drawn])

        metrics = scores.scores_with_intervals(score, len(rows), *self._resampling)
        metrics["accuracy"] = scores.fraction_with_interval(int(self._right[rows].sum()), len(rows), self.confidence)
        return metrics, expected_calibration_error(labels, self.probabilities[rows])

    def _slices(self, definitions):
        found = slices.slice_rows(self._texts, definitions, len(self.labels))
        return [Slice(name, rows, *self._scores(rows)) for name, rows in found.items()]

    def _examples(self, rows):
        return [
            Example(
                int(row),
                self.label_names[self.labels[row]],
                self.label_names[self.predicted[row]],
                float(self._confidences[row]),
                float(self._of_labels[row]),
                None if self._texts is None else self._texts[row],
            )
            for row in rows
        ]

    def __str__(self):
        return "\n\n".join(table.to_text() for table in tables.all_tables(self))

    __repr__ = __str__

    def to_html(self, path, title="Classification report"):
        """Writes the report as one HTML page with pictures, which needs no other file and no connection.

        Args:
            path: Path of the file, which is replaced if it exists. Its parent folders are created.
            title: String. Title of the page. Defaults to `"Classification report"`.

        Returns:
            `path` as a `pathlib.Path`.

        Raises:
            OSError: If the file cannot be written. It is then unchanged.
        """
        path = pathlib.Path(path)
        content = page.page_of(self, html.escape(title)).encode("utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.write(content)
        return path


def _positions(labels, names):
    """Returns labels as an integer array of positions in the list of names."""
    if has_names(labels):
        return positions_of(labels, names).astype(int)
    check_class_labels(labels, len(names), vectors=False)
    return np.asarray(labels).reshape(-1).astype(int)


def _probabilities(logits, from_logits):
    """Returns float64 probabilities [rows, classes]."""
    values = np.asarray(logits, "float64")
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        raise ValueError(
            f"`logits` must have the shape [rows, classes], with at least one row and two classes. "
            f"Received: {values.shape}"
        )
    if len(wrong := np.flatnonzero(~np.isfinite(values).all(axis=1))):
        raise ValueError(f"`logits` must be finite numbers. Received: {values[wrong[0]]} at position {wrong[0]}")
    likely = (values >= 0).all(axis=1) & (np.abs(values.sum(axis=1) - 1) < 1e-3)
    if from_logits and likely.all():
        raise ValueError(
            "The outputs are probabilities, which are not negative and whose sum is 1. Pass `from_logits=False`. "
            f"Received: {values[0]} at position 0"
        )
    if not from_logits and not likely.all():
        [row] = np.flatnonzero(~likely)[:1]
        raise ValueError(
            "Probabilities must be at least 0, and their sum must be 1. For logits, pass `from_logits=True`. "
            f"Received: {values[row]} at position {row}"
        )
    return scores.softmax(values) if from_logits else values
