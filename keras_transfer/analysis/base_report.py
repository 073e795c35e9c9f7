"""What all reports have: slices of the data, examples, the text, and the page."""

import html
import pathlib
from typing import NamedTuple

import numpy as np

from keras_transfer.analysis import page, slices, tables
from keras_transfer.files import atomic_file


class Slice(NamedTuple):
    """The scores of a slice of the data.

    Attributes:
        name: String.
        rows: Integer array. The positions of its rows.
        metrics: Dict like the `metrics` of the report, empty without rows.
        calibration_error: Float, NaN without rows or probabilities.
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


class Report:
    """Base class of the reports on classifiers.

    A subclass sets the attributes that its docstring lists, and implements `_scores` (the metrics and the calibration
    error of some rows), `_name` (of a label or a prediction), and `_first_tables`, as `_tables` returns them.

    Attributes:
        SLICE_METRICS: Tuple of the names of the two metrics that the table of slices has. The interval of the first one
            must be valid for few rows.
    """

    SLICE_METRICS = ()

    def _find_slices(self, texts, definitions):
        """Returns the list of slices with their scores."""
        found = slices.slice_rows(texts, definitions, len(self.labels))
        return [Slice(name, rows, *self._scores(rows)) for name, rows in found.items()]

    def _find_examples(self, texts, count, right, probabilities, of_labels):
        """Returns the hardest examples and the most confident mistakes, two lists of at most `count`.

        Args:
            texts: List of tuples of strings, or None.
            count: Integer.
            right: Boolean array [rows].
            probabilities, of_labels: Float arrays [rows]. Probabilities of the predictions and of the labels.
        """
        wrong = np.flatnonzero(~right)
        places = np.argsort(of_labels, kind="stable"), wrong[np.argsort(-probabilities[wrong], kind="stable")]
        return tuple(
            [
                Example(
                    int(row),
                    self._name(self.labels[row]),
                    self._name(self.predicted[row]),
                    float(probabilities[row]),
                    float(of_labels[row]),
                    None if texts is None else texts[row],
                )
                for row in rows[:count]
            ]
            for rows in places
        )

    def _tables(self):
        """Returns the tables as a dict, in order. Its keys say which pictures the page has."""
        found = self._first_tables()
        if self.reliability is not None:
            found["reliability"] = tables.reliability_table(self)
        if self.slices:
            found["slices"] = tables.slices_table(self)
        return {**found, **tables.example_tables(self)}

    def __str__(self):
        return "\n\n".join(table.to_text() for table in self._tables().values())

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
        content = page.page_of(self, self._tables(), html.escape(title)).encode("utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.write(content)
        return path


def rows_of(texts, count):
    """Returns texts, or a tuple of columns of texts, as a list of tuples; None for None.

    Raises:
        ValueError: If there are not `count` rows.
    """
    if texts is None:
        return None
    rows = list(zip(*(texts if isinstance(texts, tuple) else (texts,))))
    if len(rows) != count:
        raise ValueError(f"Each row must have a text. Received: {len(rows)} texts for {count} rows")
    return rows


def check_examples(examples):
    """Raises a `ValueError` if the number of examples is invalid."""
    if not isinstance(examples, int) or examples < 0:
        raise ValueError(f"`examples` must be an integer of at least 0. Received: examples={examples!r}")
