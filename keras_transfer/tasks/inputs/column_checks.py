"""Checks of inputs, labels and weights that belong together, and of `validation_data`."""

import logging
from collections.abc import Iterator

from keras_transfer.text.base import is_text

log = logging.getLogger("keras_transfer")


def check_columns(x, y, sample_weight=None):
    """Checks that texts, labels and sample weights in memory match. Logs a warning if their indices differ.

    Args:
        x: Texts or other inputs, as for `Task.dataset`.
        y: Labels, or `None`.
        sample_weight: Sample weights, or `None`.
    """
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(values, (set, frozenset, Iterator)):
            raise ValueError(
                f"`{name}` must be a list, an array or a table column with one value for each row, in the same order. "
                f"Received: {name} of type {type(values).__name__}"
            )
    if y is not None and is_text(x) and not isinstance(x, tuple) and _is_same_column(x, y):
        raise ValueError(
            "The texts and the labels must be different columns. "
            f"Received: the same {type(x).__name__} as x and y, {list(x[:2])!r:.100}"
        )
    values = {"x": x[0] if isinstance(x, tuple) and x else x, "y": y, "sample_weight": sample_weight}
    if isinstance(x, tuple) and len(x) == 2:
        values["the second texts"] = x[1]
    first, *others = [(name, index) for name, value in values.items() if (index := _index_of(value)) is not None] or [0]
    for name, index in others:
        if len(index) == len(first[1]) and not index.equals(first[1]):
            log.warning(
                "The indices of %s and %s differ. Rows are matched by their position, not by their index. Sort both in "
                "the same way, or pass columns of one table.",
                first[0],
                name,
            )


def _is_same_column(x, y):
    """Returns whether labels are the texts: the same object, or the same column of a table."""
    if x is y:
        return not isinstance(x, (str, bytes))
    named = getattr(x, "name", None) is not None and getattr(x, "name", None) == getattr(y, "name", None)
    return named and hasattr(x, "equals") and type(x) is type(y) and bool(x.equals(y))


def _index_of(values):
    """Returns the index of a pandas column or table, or None."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "__len__") else None


def validation_parts(task, data):
    """Returns `validation_data` as a tuple `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Tasks that make their targets also accept raw data without labels: texts, or a tuple of columns of texts.
    """
    if task.labels.optional and task.reader.accepts(data) and not isinstance(data, tuple):
        return (data,)
    if (
        task.labels.optional
        and isinstance(data, tuple)
        and (task.reader.takes_pairs or len(data) == 1)
        and all(_is_column(part) for part in data)
    ):
        return data if len(data) == 1 else (data,)
    if not isinstance(data, (list, tuple)):
        parts, alone = (data,), task.reader.accepts(data)
    else:
        parts, alone = data, len(data) not in (2, 3) or any(isinstance(part, (str, bytes)) for part in data)
    if alone:
        raise ValueError(
            "`validation_data` must be a dataset, or a tuple `(x, y)` or `(x, y, sample_weight)`. "
            f"Received: {type(data).__name__} of {len(data)} values without labels"
        )
    return parts


def _is_column(values):
    return is_text(values) and not isinstance(values, (str, bytes, tuple))
