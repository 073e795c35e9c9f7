"""Columns of labels as users have them: their rows, and whether these are names."""

import logging

import numpy as np
from keras import ops

from keras_transfer.arrays import is_lazy, whole_column

log = logging.getLogger("keras_transfer")


def whole_labels(labels, names=None):
    """Returns a column of labels of a Hugging Face `Dataset` as a list or an array, and any other labels unchanged.

    Its `ClassLabel` says which name each number stands for. If these are the names of the classes, perhaps in another
    order or case, or some of them, the numbers become names. Otherwise, they are positions, and a warning has both.
    """
    if not is_lazy(labels):
        return labels
    values, kind = whole_column(labels), labels.features
    found = getattr(getattr(kind, "feature", kind), "names", None)  # A list has a `feature`.
    if found is None or names is None or found == [str(place) for place in range(len(found))]:
        return values
    ours = {name.casefold(): name for name in names}
    theirs = {name.casefold() for name in found}
    clear = len(ours) == len(names) and len(theirs) == len(found)
    if not clear or not (theirs <= ours.keys() or theirs >= ours.keys()):
        log.warning("The labels are positions in `label_names`: %s and %s are other names.", found, list(names))
        return values
    name_of = {number: ours.get(name.casefold(), name) for number, name in enumerate(found)}

    def named(row):
        return [named(each) for each in row] if is_list(row) else name_of.get(row, row)

    return named(values if isinstance(values, list) else ops.convert_to_numpy(values).tolist())


def has_names(labels):
    """Returns whether labels in memory are names, or lists of names."""
    kind = getattr(getattr(labels, "dtype", None), "kind", "O")
    numbers = kind in "biuf" or (ops.is_tensor(labels) and "string" not in str(labels.dtype))
    if numbers or getattr(labels, "ndim", 1) == 0 or not hasattr(labels, "__iter__"):
        return False
    rows = rows_of(labels)
    return any(is_name(row) or (is_list(row) and any(map(is_name, row))) for row in rows)


def are_empty(labels):
    """Returns whether labels in memory are one or more lists that are all empty."""
    return (
        isinstance(labels, (list, tuple)) and len(labels) > 0 and all(is_list(row) and not len(row) for row in labels)
    )


def rows_of(labels):
    """Returns the labels of the rows of a list, an array or a table column, as a list or tuple."""
    if hasattr(labels, "to_pylist"):  # a column of an Arrow table
        return labels.to_pylist()
    labels = whole_column(labels)
    if isinstance(labels, (list, tuple)):
        return labels
    values = np.asarray(labels)
    if values.ndim == 0:
        raise ValueError(f"Labels must be a list, an array or a table column. Received: {labels!r:.100}")
    return list(values)


def is_list(row):
    """Returns whether the label of a row is a collection of labels."""
    return isinstance(row, (list, tuple, set, frozenset, np.ndarray))


def is_name(label):
    """Returns whether a label is a name, a string or the bytes of one."""
    return isinstance(label, (str, bytes))


def as_string(label):
    """Returns a label as a string. Bytes are UTF-8."""
    return label.decode("utf-8") if isinstance(label, bytes) else str(label)
