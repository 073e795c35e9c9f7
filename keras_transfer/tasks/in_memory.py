"""Data in memory: whether there are any rows, what is predicted for none, and which rows are for validation."""

from collections.abc import Mapping

import keras
import numpy as np


def is_empty(x, raw):
    """Returns whether data in memory have no rows.

    Args:
        x: Raw or prepared data.
        raw: Boolean. Whether `x` is raw. Prepared data may be a list of arrays, one for each input of the model.
    """
    if isinstance(x, Mapping):
        columns = list(x.values())
    elif isinstance(x, tuple) or (isinstance(x, list) and not raw and all(hasattr(column, "shape") for column in x)):
        columns = x
    else:
        columns = (x,)
    return len(columns) > 0 and all(_count(column) == 0 for column in columns)


def _count(column):
    """The number of rows of a list, array or tensor; None for anything else, such as a str or a dataset."""
    if isinstance(column, list) or hasattr(column, "to_pylist"):  # Arrow
        return len(column)
    shape = getattr(column, "shape", None)
    return shape[0] if shape else None


def no_outputs(model, x):
    """Returns what `predict` gives for data without rows, without running the model.

    Args:
        model: Functional model.
        x: Data without rows. Arrays of shape [0, length] say how long the outputs are.

    Returns:
        Array of shape [0, ...], or the structure of such arrays that the model returns.
    """
    lengths = [column.shape[1] for column in keras.tree.flatten(x) if len(getattr(column, "shape", ())) > 1]

    def no_rows(output):
        sizes = [next(iter(lengths), 0) if size is None else size for size in output.shape[1:]]
        return keras.ops.convert_to_numpy(keras.ops.zeros((0, *sizes), output.dtype))

    return keras.tree.map_structure(no_rows, model.output)


def split_last(x, y, sample_weight, fraction):
    """Returns the data without the last `fraction` of their rows, and these rows for validation, as Keras splits."""
    count = len(x[0]) if isinstance(x, tuple) else len(x)
    at = int(count * (1 - fraction))
    if not 0 < at < count or len(y) != count:
        raise ValueError(
            "`validation_split` needs a label for each text, and texts on both sides. "
            f"Received: {count} texts, {len(y)} labels, validation_split={fraction}"
        )

    def take(values, part):
        if isinstance(values, tuple):
            return tuple(column[part] for column in values)
        return values if values is None else (values if isinstance(values, list) else np.asarray(values))[part]

    train, rest = slice(None, at), slice(at, None)
    return tuple(take(v, train) for v in (x, y, sample_weight)), tuple(take(v, rest) for v in (x, y, sample_weight))
