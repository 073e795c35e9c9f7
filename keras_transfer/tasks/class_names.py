"""Names of classes as labels: the names that occur in a column of labels, and their positions."""

import numpy as np
from keras import ops

from keras_transfer.names import did_you_mean


def names_in(labels):
    """Returns the names of the classes that occur in labels, sorted.

    Args:
        labels: List, array or table column of names, or of lists of names. Integers count as names: if all labels are
            integers, the names are `"0"` to the largest integer.

    Raises:
        ValueError: If some labels are names and others are not, or if labels are an array of zeros and ones.
    """
    if getattr(labels, "ndim", 1) > 1 and not has_names(labels):
        raise ValueError(
            "`labels` must be a column of labels, or of lists of names. For an array of zeros and ones, pass "
            f"`label_names` or `num_classes`. Received: an array of shape {tuple(labels.shape)}"
        )
    flat = [label for row in _rows(labels) for label in (row if _is_list(row) else [row])]
    if flat and all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in flat):
        return [str(number) for number in range(max(flat) + 1)]
    for position, label in enumerate(flat):
        if not _is_name(label):
            raise ValueError(
                "`labels` must be all names or all integers. "
                f"Received: {label!r:.100} of type {type(label).__name__} at position {position}"
            )
    return sorted({_as_string(label) for label in flat})


def has_names(labels):
    """Returns whether labels in memory are names, or lists of names."""
    kind = getattr(getattr(labels, "dtype", None), "kind", "O")
    numbers = kind in "biuf" or (ops.is_tensor(labels) and "string" not in str(labels.dtype))
    if numbers or getattr(labels, "ndim", 1) == 0 or not hasattr(labels, "__iter__"):
        return False
    rows = _rows(labels)
    return any(_is_name(row) or (_is_list(row) and any(map(_is_name, row))) for row in rows)


def are_empty(labels):
    """Returns whether labels in memory are one or more lists that are all empty."""
    return (
        isinstance(labels, (list, tuple)) and len(labels) > 0 and all(_is_list(row) and not len(row) for row in labels)
    )


def positions_of(labels, names):
    """Returns the positions of names as an int32 array.

    Args:
        labels: List, array or table column of names.
        names: List of strings. The names of the classes, in order.

    Raises:
        ValueError: If a label is not one of the names.
    """
    places = {name: place for place, name in enumerate(names)}
    return np.array([_place(label, places, index) for index, label in enumerate(_rows(labels))], "int32")


def multi_hot(labels, names):
    """Returns lists of names as a float32 array [texts, classes] of zeros and ones.

    Args:
        labels: List of lists of names. A list may be empty.
        names: See `positions_of`.

    Raises:
        ValueError: If a label is not one of the names, or if a row is not a list.
    """
    rows, places = _rows(labels), {name: place for place, name in enumerate(names)}
    hot = np.zeros((len(rows), len(names)), "float32")
    for index, row in enumerate(rows):
        if not _is_list(row):
            raise ValueError(f"Labels must be lists of names. Received: {row!r:.100} at position {index}")
        hot[index, [_place(label, places, index) for label in row]] = 1
    return hot


def _place(label, places, index):
    place = places.get(_as_string(label)) if _is_name(label) else None
    if place is None:
        question = did_you_mean(_as_string(label), places) if _is_name(label) else ""
        raise ValueError(
            f"Labels must be names in `label_names`, {list(places)!s:.200}.{question} "
            f"Received: {label!r:.100} at position {index}"
        )
    return place


def _rows(labels):
    if hasattr(labels, "to_pylist"):  # a column of an Arrow table
        return labels.to_pylist()
    return labels if isinstance(labels, (list, tuple)) else list(np.asarray(labels))


def _is_list(row):
    return isinstance(row, (list, tuple, set, frozenset, np.ndarray))


def _is_name(label):
    return isinstance(label, (str, bytes))


def _as_string(label):
    return label.decode("utf-8") if isinstance(label, bytes) else str(label)
