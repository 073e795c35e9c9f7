"""The common code of all reports: slices of the data, examples, the text, and the page."""

import pathlib
import re
from typing import NamedTuple

import numpy as np

from keras_transfer.analysis import page, tables
from keras_transfer.core.expect import PART, expect, expects, integer

MAX_GROUPS = 50


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
        label: String, the class name. If rows have several labels, a tuple of class names.
        predicted: String or tuple of strings, in the same form.
        probability: Float. Probability of the prediction.
        label_probability: Float. Probability of the label, or of the set of labels.
        text: Tuple of one or two strings, or `None` if the report has no texts.
    """

    position: int
    label: str | tuple
    predicted: str | tuple
    probability: float
    label_probability: float
    text: tuple | None


class Report:
    """Base class of the reports on classifiers.

    A subclass sets the attributes that its docstring lists, and `label_names`. It implements `_scores`, which returns
    the metrics and the calibration error of some rows, `_name`, which returns the name of a label or a prediction, and
    `_first_tables`, which returns a dict of the tables before the reliability.

    Attributes:
        SLICE_METRICS: Tuple of the names of the two metrics in the table of slices. The interval of the first one must
            be valid for few rows.
        COUNTED: String. Name of the items that the reliability counts.
    """

    SLICE_METRICS: tuple[str, ...] = ()
    COUNTED = "rows"
    labels: np.ndarray
    slices: list
    _right: np.ndarray

    @expects(num_examples=integer(0), resamples=integer(1), confidence=PART)
    def __init__(self, seed, num_examples, resamples, confidence):
        self.confidence = confidence
        self._resampling, self._example_count = (resamples, confidence, seed), num_examples

    def _rows_of(self, texts):
        """Returns texts, or a tuple of two columns of texts, as a list of tuples. Returns None for None."""
        if texts is None:
            return None
        columns = texts if isinstance(texts, tuple) else (texts,)
        columns = [[column] if isinstance(column, str) else column for column in columns]
        lengths = [len(column) for column in columns]
        expect(set(lengths) == {len(self.labels)}, "Each row must have a text.", texts=lengths, rows=len(self.labels))
        return list(zip(*columns))

    def _find_slices(self, texts, definitions):
        """Returns the list of slices with their scores."""
        found = slice_rows(texts, definitions, len(self.labels))
        return [Slice(name, rows, *self._scores(rows)) for name, rows in found.items()]

    def _find_examples(self, texts, right, likely, of_labels, probability=float):
        """Returns the hardest examples and the most confident mistakes, two lists.

        Args:
            likely, of_labels: Float arrays [rows]. How likely the predictions and the labels are.
            probability: Function from such a value to its probability.
        """
        wrong = np.flatnonzero(~right)
        places = np.argsort(of_labels, kind="stable"), wrong[np.argsort(-likely[wrong], kind="stable")]
        return tuple(
            [
                Example(
                    int(row),
                    self._name(self.labels[row]),
                    self._name(self.predicted[row]),
                    probability(likely[row]),
                    probability(of_labels[row]),
                    None if texts is None else texts[row],
                )
                for row in rows[: self._example_count]
            ]
            for rows in places
        )

    def compare_with(self, before: "Report") -> tables.Table:
        """Compares with a report on another model: which slices have gained, and which have lost.

        Args:
            before: Report on the same rows.

        Returns:
            A table that `print` shows: for each slice the number of rows that only this model (`gained`) or only the
            other one (`lost`) gets right, both fractions of right rows, and their difference with its interval.

        Raises:
            ValueError: If the labels of the two reports differ.

        Source: https://doi.org/10.1002/(SICI)1097-0258(19981130)17:22%3C2635::AID-SIM954%3E3.0.CO;2-C (the interval)
        """
        same = np.array_equal(self.labels, before.labels)
        rule = "Both reports must be on the same rows, with the classes in the same order."
        expect(same, rule, rows=len(self.labels), before=len(before.labels))
        found = {"all rows": np.arange(len(self.labels))} | {part.name: part.rows for part in self.slices}
        return tables.gains_table(found, before._right, self._right, self.confidence)

    def _tables(self):
        """Returns the tables as a dict, in order. Its keys determine which pictures the page has."""
        found = self._first_tables()
        if self.reliability is not None:
            found["reliability"] = tables.reliability_table(self)
        if self.slices:
            found["slices"] = tables.slices_table(self)
        return {**found, **tables.example_tables(self)}

    def __str__(self):
        return "\n\n".join(table.to_text() for table in self._tables().values())

    __repr__ = __str__

    def _repr_html_(self):
        return page.content_of(self, self._tables())

    def to_html(self, path: str | pathlib.Path, title: str = "Classification report") -> pathlib.Path:
        """Writes the report as one HTML page with pictures, which needs no other file and no connection.

        Without Matplotlib (`pip install matplotlib`), the page has no pictures, and only the tables.

        Args:
            path: String or path. File to write. An existing file is replaced. Parent folders are created.
            title: String. Title of the page. Defaults to `"Classification report"`.

        Returns:
            `path` as a `pathlib.Path`.

        Raises:
            OSError: If the file cannot be written. It is then unchanged.
        """
        return page.write(path, title, page.content_of(self, self._tables()))


def slice_rows(texts, definitions, count):
    """Returns the rows of each slice, as `report` defines it, as a dict from names to integer arrays."""
    slices = {} if texts is None else _by_length(texts)
    rule = "`slices` must be a dict from names to words, functions or arrays."
    expect(definitions is None or isinstance(definitions, dict), rule, slices=definitions)
    for name, definition in (definitions or {}).items():
        values = _values(name, definition, texts)
        rule = f"`slices[{name!r}]` must have a value for each row."
        expect(len(values) == count, rule, values=len(values), count=count)
        if all(isinstance(value, (bool, np.bool_)) for value in values):
            _add(slices, name, np.flatnonzero(values))
            continue
        # NaN stands for a missing value of a table.
        missing = [value is None or (isinstance(value, float) and value != value) for value in values]
        values = [None if gone else str(value) for value, gone in zip(values, missing)]
        groups = sorted(set(values) - {None})
        rule = (
            f"`slices[{name!r}]` must have at most {MAX_GROUPS} different values. Return the name of a group, such as "
            "'long' or 'short'."
        )
        expect(len(groups) <= MAX_GROUPS, rule, count=len(groups), groups=groups[:3])
        for group in groups:
            _add(slices, f"{name}: {group}", np.flatnonzero([value == group for value in values]))
    return slices


def _add(slices, name, rows):
    expect(name not in slices, "The names of slices must be unique.", name=name)
    slices[name] = rows


def _by_length(texts):
    """Returns three slices with about as many rows each, by the number of words of the texts."""
    lengths = np.array([sum(len(text.split()) for text in row) for row in texts])
    place = np.searchsorted(np.unique(np.quantile(lengths, [1 / 3, 2 / 3], method="lower")), lengths)
    slices = {}
    for number in np.unique(place):
        rows = np.flatnonzero(place == number)
        least, most = lengths[rows].min(), lengths[rows].max()
        slices[f"length {least}" if least == most else f"length {least} to {most}"] = rows
    return slices if len(slices) > 1 else {}


def _values(name, definition, texts):
    """Returns the value of each row: whether it belongs to the slice, or the name of its group."""
    if hasattr(definition, "shape"):
        return np.asarray(definition).tolist()
    words = [definition] if isinstance(definition, str) else definition
    has_words = (
        isinstance(words, (list, tuple, set))
        and words
        and all(isinstance(word, str) and word.strip() for word in words)
    )
    rule = (
        f"`slices[{name!r}]` must be a word, a list of words, a function of the text, or an array with a value for "
        "each row."
    )
    expect(has_words or callable(definition), rule, definition=definition)
    expect(texts is not None, "Words and functions require texts. Pass an array with a value for each row.", name=name)
    if callable(definition):
        return [definition(*row) for row in texts]
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)
    return [any(pattern.search(text) for text in row) for row in texts]
