"""Labels as the positions of their names, or as zeros and ones for the names of each row."""

import unicodedata
from collections.abc import Mapping

import numpy as np

from keras_transfer.arrays import to_array
from keras_transfer.label_names.columns import as_string, is_list, is_name, rows_of, whole_labels
from keras_transfer.label_names.numbers import as_names, as_positions
from keras_transfer.names import did_you_mean, listed


def positions_of(labels, names, unnamed=""):
    """Returns the positions of names as an int32 array.

    Args:
        labels: List, array or table column of names.
        names: List of strings. The names of the classes, in order.
        unnamed: String. What to do if the names are only numbers, as a sentence of the error message. Defaults to `""`.
    """
    places = {name: place for place, name in enumerate(names)}
    for index, row in enumerate(rows_of(labels)):
        if is_list(row):
            raise ValueError(
                "Labels must be one name for each text. For lists of names, create the classifier with "
                f"`multi_label=True`. Received: {row!r:.100} at position {index}"
            )
    return np.array([_place(label, places, index, unnamed) for index, label in enumerate(rows_of(labels))], "int32")


def multi_hot(labels, names, unnamed=""):
    """Returns lists of names as a float32 array [texts, classes] of zeros and ones.

    Args:
        labels: List of lists of names. A list may be empty.
        names, unnamed: See `positions_of`.
    """
    rows, places = rows_of(labels), {name: place for place, name in enumerate(names)}
    hot = np.zeros((len(rows), len(names)), "float32")
    for index, row in enumerate(rows):
        if not is_list(row):
            raise ValueError(f"Labels must be lists of names. Received: {row!r:.100} at position {index}")
        hot[index, [_place(label, places, index, unnamed) for label in row]] = 1
    return hot


def _place(label, places, index, unnamed):
    place = places.get(as_string(label)) if is_name(label) else None
    if place is None:
        raise ValueError(
            f"Labels must be names in `label_names`, {listed(places)}.{_advice(label, places, unnamed)} "
            f"Received: {label!r:.100} at position {index}"
        )
    return place


def _advice(label, places, unnamed):
    """Returns what to do about an unknown name, as the next sentence of an error message, or an empty string."""
    if not is_name(label):
        return ""
    label = as_string(label)
    for name in places:
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", label):
            return (
                f" {name!a} has the same characters in another Unicode normalization form. Convert labels and names "
                "with `unicodedata.normalize('NFC', name)`."
            )
    if unnamed and list(places) == [str(place) for place in range(len(places))]:
        return unnamed
    return did_you_mean(label, places)


def positions_of_numbers(labels, names):
    """Returns labels in memory as positions if they are numbers that are names, and any other labels unchanged.

    Args:
        labels: List, array or table column.
        names: List of strings. The names of the classes, in order.
    """
    values = _column_of_numbers(labels)
    positions = None if values is None else as_positions(values, names)
    return labels if positions is values else positions


def names_of_numbers(labels, names):
    """Returns labels in memory as names if some of them alone could be read in two ways, and any others unchanged."""
    values = _column_of_numbers(labels)
    found = None if values is None else as_names(values, names)
    return labels if found is values else found


def _column_of_numbers(labels):
    """Returns labels as an array if they are one number or boolean for each text, or None."""
    try:
        values = to_array(labels)
    except ValueError:  # rows of different lengths
        return None
    is_column = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    return values if is_column and values.dtype.kind in "biuf" else None


def in_order_of_names(labels, names):
    """Returns a table with a column for each class as an array in the order of the names, and other labels unchanged.

    A table with one column of labels is returned as this column, and a column of a Hugging Face `Dataset` as
    `whole_labels` returns it.

    Args:
        labels: Labels in memory.
        names: List of strings. The names of the classes, in order.
    """
    if isinstance(labels, Mapping):
        raise ValueError(
            "Labels must be a list, an array or a table, with one value for each text. "
            f"Received: a {type(labels).__name__} with the keys {listed(labels)}"
        )
    labels = whole_labels(labels, names)
    columns = getattr(labels, "column_names", getattr(labels, "columns", None))  # Arrow; pandas and Polars
    if columns is None or callable(columns):
        return labels
    if len(columns) == 1:
        return np.asarray(labels)[:, 0]
    columns, numbers = [str(column) for column in columns], [str(place) for place in range(len(names))]
    if columns == list(names) or numbers in (columns, list(names)):
        return labels
    if sorted(columns) != sorted(names):
        raise ValueError(
            "The columns of a table of labels must be the names in `label_names`. Expected the columns "
            f"{listed(names)}. Received: {listed(columns)}"
        )
    return np.asarray(labels)[:, [columns.index(name) for name in names]]


def check_not_positions(labels, names):
    """Raises a `ValueError` if lists may be positions of two classes, or zeros and ones, such as `[[0, 1], [1, 0]]`."""
    if len(names) == 2 and isinstance(labels, (list, tuple)) and labels and all(map(_may_be_positions, labels)):
        raise ValueError(
            "Labels must not be lists that could be positions as well as zeros and ones. Pass lists of names, or "
            f"zeros and ones as an array, `np.array(labels)`. Received: {labels!r:.100}"
        )


def _may_be_positions(row):
    is_pair = isinstance(row, (list, tuple)) and list(row) in ([0, 1], [1, 0])
    return is_pair and all(isinstance(value, int) and not isinstance(value, bool) for value in row)
