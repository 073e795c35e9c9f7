"""Texts with labels, which most readers return, and their division into training and validation data."""

import logging
import math
from typing import NamedTuple

import numpy as np

from keras_transfer.core.expect import expect, expects
from keras_transfer.datasets.splits import shown_by_columns

log = logging.getLogger("keras_transfer")


@shown_by_columns
class Split(NamedTuple):
    """Texts and their labels, which can be passed to tasks directly: `model.fit(*split)`.

    Attributes:
        texts: List of strings, or for pairs a tuple of two lists of strings.
        labels: List of integers, positions in the dataset's `label_names`. A task that predicts numbers needs floats.
            `read_table` may return names. `None` for texts without labels.
    """

    texts: list
    labels: list

    def __getattr__(self, name):
        hint = ""
        if name == "label_names":
            hint = (
                " The names belong to the whole dataset, such as `data.label_names` of `data.train`. A table has none."
            )
        raise AttributeError(f"A `Split` has no attribute `{name}`.{hint} Expected one of {self._fields}")


@expects()
def hold_out(split: Split, validation_split: float = 0.2, *, seed: int = 0) -> tuple:
    """Divides training data at random into training and validation data.

    Each class has the same fraction of its rows in the validation data, up to one row, if the second column contains
    classes, such as names or integers. Other labels, such as numbers and lists, make no difference. If texts are in
    both parts, a warning is logged, because scores on them are too good. This is checked for data with at most
    two columns, such as texts and labels.

    Args:
        split: `Split` or another tuple of columns of the same length, such as texts and labels. A column may itself be
            a tuple of columns, such as the texts of pairs. A column that is `None` remains `None`.
        validation_split: Float between 0 and 1. Fraction of the rows in the validation data. Defaults to `0.2`.
        seed: Integer. Seed of the choice, which is the same on every machine. Defaults to `0`.

    Returns:
        `(train, validation)`, two tuples like `split`. The rows keep their order.

    Raises:
        ValueError: If `split` is not a tuple of columns of the same length, or if one of the parts would be empty.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    train, validation = keras_transfer.datasets.hold_out(data.train)
    ```
    """
    lengths = _lengths(split) if isinstance(split, tuple) else []
    if not lengths or len(set(lengths)) > 1:
        raise ValueError(
            "`split` must be a tuple of columns of the same length. "
            f"Received: {f'columns of lengths {lengths}' if lengths else type(split).__name__}"
        )
    count = math.floor(validation_split * lengths[0] + 0.5)
    rule = "Training and validation data must have at least one row."
    expect(0 < count < lengths[0], rule, validation_split=validation_split, lengths=lengths[:1])
    order = np.random.default_rng(seed).permutation(lengths[0])
    chosen = np.zeros(lengths[0], bool)
    chosen[_stratified(split, order.tolist(), count)] = True
    parts = []
    for rows in (np.flatnonzero(~chosen), np.flatnonzero(chosen)):
        columns = _select(split, rows)
        parts.append(type(split)(*columns) if hasattr(split, "_fields") else columns)
    if len(split) <= 2:
        _warn_of_duplicates(*(_texts(part[0]) for part in parts))
    return tuple(parts)


def _stratified(split, order, count):
    """Returns `count` of the rows in a random order: of each class its fraction, and the first ones without classes."""
    classes = _classes(split) or [0] * len(order)
    rows: dict = {}
    for row in order:
        rows.setdefault(classes[row], []).append(row)
    numbers, remainders = {}, {}
    for label, found in rows.items():
        numbers[label], remainders[label] = divmod(count * len(found), len(order))
    missing = count - sum(numbers.values())
    for label in sorted(remainders, key=remainders.get, reverse=True)[:missing]:
        numbers[label] += 1
    return [row for label, found in rows.items() for row in found[: numbers[label]]]


def _classes(split):
    """Returns the second column as a list if it contains classes, or None."""
    column = split[1] if len(split) > 1 else None
    if column is None or _is_nested(column) or getattr(column, "ndim", 1) != 1:
        return None
    labels = list(column)
    are_classes = all(isinstance(label, (str, bool, int, np.integer)) for label in labels)
    return labels if are_classes else None


def _warn_of_duplicates(train, held_out):
    known = set(train)
    if count := sum(text in known for text in held_out):
        log.warning(
            "%d of %d held-out texts are also in the training part, so scores on them are too good. Remove duplicates "
            "before you divide the data.",
            count,
            len(held_out),
        )


def _texts(column):
    """Returns the rows of a column that are strings, pairs of strings or lists of words, with tuples for lists."""
    rows = zip(*column) if _is_nested(column) else () if column is None else column
    rows = [tuple(row) if isinstance(row, list) else row for row in rows]
    return [row for row in rows if isinstance(row, str) or (isinstance(row, tuple) and {*map(type, row)} == {str})]


def _is_nested(column):
    return isinstance(column, tuple) and all(
        isinstance(part, (list, np.ndarray)) or _is_pandas(part) for part in column
    )


def _is_pandas(column):
    return hasattr(column, "iloc")


def _lengths(columns):
    """Returns the lengths of all columns, and of the columns of a column."""
    lengths = []
    for column in columns:
        lengths += _lengths(column) if _is_nested(column) else [] if column is None else [len(column)]
    return lengths


def _select(columns, rows):
    """Returns the given rows of all columns, as a tuple."""
    selected = []
    for column in columns:
        if _is_nested(column):
            selected.append(_select(column, rows))
        elif column is None or isinstance(column, np.ndarray):
            selected.append(None if column is None else column[rows])
        elif _is_pandas(column):  # `column[i]` would be the row with the index i.
            selected.append(column.iloc[rows].tolist() if column.ndim == 1 else column.iloc[rows])
        else:
            selected.append([column[i] for i in rows])
    return tuple(selected)
