"""The common code of all reports: slices of the data, examples, the text, and the page."""

import re
from typing import NamedTuple

import numpy as np

from keras_transfer.analysis import page, scores, tables
from keras_transfer.core.expect import PART, expect, expects, integer

MAX_GROUPS = 50


class Slice(NamedTuple):
    """The scores of a slice of the data."""

    name: str
    rows: np.ndarray  # their positions
    metrics: dict  # like those of the report, empty without rows
    calibration_error: float  # NaN without rows or probabilities


class Example(NamedTuple):
    """A row of the data and its prediction."""

    position: int
    label: str | tuple  # the class name, or a tuple of them if rows have several labels
    predicted: str | tuple
    probability: float  # of the prediction
    label_probability: float
    text: tuple | None  # one or two strings


class Report(page.Page):
    """Base class of the reports on classifiers.

    A subclass sets the attributes that its docstring lists, and implements `_scores` (the metrics and the calibration
    error of some rows), `_name` (of a label or a prediction), and `_first_tables` (a dict of those before reliability).
    """

    title = "Classification report"
    SLICE_METRICS: tuple[str, ...] = ()  # In the table of slices. The interval of the first is valid for few rows.
    COUNTED = "rows"  # What the reliability counts.
    labels: np.ndarray
    label_names: list
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

    def _class_scores(self, right, labelled, predicted):
        """Returns the scores of each class, given how often it is right, is a label, and is predicted."""
        columns = {**scores.scores_of_counts(right, labelled, predicted), "count": labelled}
        rows = zip(*(values.tolist() for values in columns.values()))
        return {name: dict(zip(columns, row)) for name, row in zip(self.label_names, rows)}

    def _find_slices(self, texts, definitions):
        """Returns the list of slices with their scores."""
        found = slice_rows(texts, definitions, len(self.labels))
        return [Slice(name, rows, *self._scores(rows)) for name, rows in found.items()]

    def _find_examples(self, texts, right, likely, of_labels, probability=float):
        """Returns the hardest examples and the most confident mistakes, given how likely predictions and labels are."""
        wrong = np.flatnonzero(~right)
        places = np.argsort(of_labels, kind="stable"), wrong[np.argsort(-likely[wrong], kind="stable")]

        def example(row):
            names = self._name(self.labels[row]), self._name(self.predicted[row])
            numbers = probability(likely[row]), probability(of_labels[row])
            return Example(int(row), *names, *numbers, None if texts is None else texts[row])

        return tuple([*map(example, rows[: self._example_count])] for rows in places)

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
        return "\n\n".join(map(str, self._tables().values()))

    __repr__ = __str__

    def _repr_html_(self):
        return page.content_of(self, self._tables())


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
        rule = f"`slices[{name!r}]` must have at most {MAX_GROUPS} different values. Return a group, such as 'long'."
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
    has_words = isinstance(words, (list, tuple, set)) and words
    has_words = has_words and all(isinstance(word, str) and word.strip() for word in words)
    rule = f"`slices[{name!r}]` must be a word, a list of words, a function of the text, or an array of values."
    expect(has_words or callable(definition), rule, definition=definition)
    expect(texts is not None, "Words and functions require texts. Pass an array with a value for each row.", name=name)
    if callable(definition):
        return [definition(*row) for row in texts]
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)
    return [any(pattern.search(text) for text in row) for row in texts]
