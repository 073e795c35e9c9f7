"""Data in memory as columns with one value for each row, which can be sliced, split and batched."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_transfer.core.arrays import check_weights, to_numpy
from keras_transfer.data import Batches
from keras_transfer.encoders import check_ids
from keras_transfer.text import check_rows_of_batches


def columns_of(task, x):
    """Returns data in memory as columns that can be sliced, or `None` if `x` is a dataset."""
    if task.reader.accepts(x):
        task.reader.require()
        return task.reader.columns(x)
    if not isinstance(x, (Mapping, list, tuple)) and not hasattr(x, "shape"):
        return None
    names = input_names(task)
    names, columns = (list(x), list(x.values())) if isinstance(x, Mapping) else (names, keras.tree.flatten(x))
    arrays = {name: to_numpy(column) for name, column in zip(names, columns)}
    if not arrays or len(columns) != len(names) or any(array.ndim == 0 for array in arrays.values()):
        raise ValueError(
            f"`x` must be raw data, a dataset, or an array for each of the inputs {names}. "
            f"Received: {type(x).__name__} of {len(columns)} values"
        )
    check_ids(task.encoder, arrays)
    return arrays


def input_names(task):
    """Returns the names of a functional model's inputs, in their order."""
    return list(task.input) if isinstance(task.input, dict) else [tensor.name for tensor in task.inputs]


def count_rows(columns):
    """Returns the number of rows of columns: a list or array, a tuple of them, or a dict of arrays."""
    if isinstance(columns, dict):
        columns = tuple(columns.values())
    return len(columns[0] if isinstance(columns, tuple) and columns else columns)


def split_last(columns, y, sample_weight, fraction):
    """Splits off the last rows, a fraction of all, for validation, as Keras does.

    Returns two tuples `(columns, y, sample_weight)`: the first rows, and the remaining ones.
    """
    count = count_rows(columns)
    at = int(count * (1 - fraction))
    labels = count if y is None else len(next(iter(y.values())) if isinstance(y, dict) else y)
    if not 0 < at < count or labels != count:
        raise ValueError(
            "`validation_split` must leave at least one row for training and one for validation, and each row must "
            "have a label. "
            f"Received: {count} rows, {labels} labels, validation_split={fraction}"
        )

    y = list(y) if isinstance(y, tuple) else y
    parts = slice(at), slice(at, None)
    return tuple(tuple(take_rows(values, rows) for values in (columns, y, sample_weight)) for rows in parts)


def take_rows(values, rows):
    """Returns some rows of what `columns_of` returns, of a column, of a dict of columns, or of None."""
    if isinstance(values, dict):
        return {name: take_rows(column, rows) for name, column in values.items()}
    if isinstance(values, tuple):
        return tuple(take_rows(column, rows) for column in values)
    if isinstance(values, list):
        return values[rows] if isinstance(rows, slice) else [values[row] for row in rows.tolist()]
    return values if values is None else np.asarray(values)[rows]


def rows_of(columns):
    """Returns a dict from the names of the arrays in a (nested) dict to their numbers of rows or `None`."""
    shapes = {
        ".".join(map(str, path)): array.shape
        for path, array in keras.tree.flatten_with_path(columns)
        if hasattr(array, "shape")
    }
    return {name: shape[0] if len(shape) else None for name, shape in shapes.items()}


def check_rows(rows):
    """Raises a `ValueError` if columns that belong together differ in their numbers of rows, of which None is any."""
    if len(set(rows.values())) > 1:
        raise ValueError(f"Inputs, labels and sample weights must have the same number of rows. Received: {rows}")


def batch_arrays(columns, y, sample_weight, batch_size, shuffle):
    """Returns prepared arrays `[rows, ...]`, columns by their names, as `Batches` with their own length."""
    if isinstance(y, dict):  # A task with several heads has a dict of labels.
        y = {name: to_numpy(part) for name, part in y.items()}
    elif y is not None:
        try:
            y = to_numpy(y)
        except ValueError as error:
            raise ValueError(
                "Labels of prepared inputs must be an array. Received: rows of different lengths"
            ) from error
    sample_weight = None if sample_weight is None else to_numpy(sample_weight)
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight)
    check_rows(rows_of({**columns, **(y if isinstance(y, dict) else {"y": y}), "sample_weight": sample_weight}))
    check_rows_of_batches(batch_size)
    sizes = [column.shape[1] for column in columns.values() if column.ndim > 1]
    length = max([*sizes, *columns["padding_mask"].shape[-1:]] if "padding_mask" in columns else sizes, default=1)
    return Batches.of(columns, y, sample_weight, batch_size=batch_size, shuffle=shuffle, lengths=[length])
