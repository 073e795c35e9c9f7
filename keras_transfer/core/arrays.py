"""Columns that users pass, such as labels and weights, as lists and NumPy arrays."""

import hashlib
import numbers

import keras
import numpy as np

from keras_transfer.core.expect import expect


def whole_column(column):
    """Returns a column of a Hugging Face `Dataset` as the list or array of its format, and anything else unchanged.

    Iterating over the column itself loads one value at a time, which is much slower.
    """
    return column[:] if is_lazy(column) else column


def is_lazy(values):
    """Returns whether values are a column of a Hugging Face `Dataset`, which loads them from files when needed."""
    return hasattr(values, "column_name") and hasattr(values, "__len__")


def to_numpy(values):
    """Returns an array, a tensor of any framework, or a list as a NumPy array, without a copy if possible."""
    return values if isinstance(values, np.ndarray) else keras.ops.convert_to_numpy(values)


def to_array(values):
    """Returns labels (a list or anything with a shape) as a NumPy array with the dtype that NumPy chooses."""
    values = whole_column(values)
    return np.asarray(to_numpy(values) if hasattr(values, "shape") else values)


def without_float64(values):
    """Returns float64 arrays as float32, as Keras does unless its `floatx` is float64, and anything else unchanged."""
    if isinstance(values, dict):
        return {name: without_float64(part) for name, part in values.items()}
    is_wide = isinstance(values, np.ndarray) and values.dtype == "float64" and keras.config.floatx() != "float64"
    return values.astype("float32") if is_wide else values


def as_column(values, name, count):
    """Returns labels or sample weights as an array or `None`, or labels of several heads as a dict of arrays."""
    if values is None:
        return None
    if isinstance(values, dict):
        return {head: as_column(column, name, count) for head, column in values.items()}
    try:
        values = np.asarray(whole_column(values))
    except ValueError as error:
        advice = " Convert lists of names with `model.labels.encode(labels)`." if name == "labels" else ""
        raise ValueError(f"The {name} must be an array.{advice} Received: rows of different lengths") from error
    rule = f"The number of {name} must equal the number of texts."
    found = f"{len(values)} {name}" if values.ndim else values.item()
    expect(values.shape[:1] == (count,), rule, received=f"{found}, {count} texts")
    return check_weights(values) if name == "sample weights" else values


def row_weights(weights, count, row, advice=""):
    """Returns the weights of rows as an array."""
    try:
        weights = np.asarray(whole_column(weights), "float32")
        shape = weights.shape
    except ValueError:
        shape = "lists of different lengths"
    rule = f"`sample_weight` must contain one weight for each {row}.{advice}"
    expect(shape == (count,), rule, received=f"shape {shape} for {count} {row}s")
    return check_weights(weights)


def check_weights(weights, name="sample_weight"):
    """Returns an array of weights, or raises a `ValueError` if one is not a finite number of at least 0.

    Training with one that is not finite would make all weights of the model NaN, and with a negative one, the loss has
    no minimum.
    """
    kind, rule = getattr(weights.dtype, "kind", "V"), f"`{name}` must be finite numbers."
    expect(kind not in "SUMm", rule, received=f"an array of type {weights.dtype}")
    if kind == "O":  # A column with None or other objects.
        are_numbers = np.array([isinstance(value, numbers.Real) for value in weights.flat], bool)
        expect_each(are_numbers.reshape(weights.shape), rule, weights)
        weights = weights.astype("float32")
    with np.errstate(over="ignore"):
        values = np.asarray(weights, "float32")
    expect_each(np.isfinite(values), rule, weights)
    expect_each(values >= 0, f"`{name}` must be at least 0.", weights)
    return weights


def expect_each(are_met, rule, values, advice=lambda value: ""):
    """Raises a `ValueError` with a rule and the first of some values that breaks it, unless a boolean array is True.

    `advice` returns what helps for this value, a sentence after a space.
    """
    if not are_met.all():
        place = tuple(np.argwhere(~are_met)[0].tolist())
        value = values[place]
        raise ValueError(f"{rule}{advice(value)} Received: {value} at position {_plain(place)}")


def _plain(place):
    return place[0] if len(place) == 1 else place


def check_numbers(outputs):
    """Returns the outputs `[rows, ...]` of a model, an array or a list of arrays, unchanged."""
    if isinstance(outputs, np.ndarray):
        wrong = np.flatnonzero(~np.isfinite(outputs.reshape(len(outputs), -1)).all(axis=1)) if len(outputs) else []
    else:
        wrong = [row for row, values in enumerate(outputs) if not np.isfinite(values).all()]
    if len(wrong):
        raise ValueError(
            "The outputs of the model must be finite numbers. Its training has probably diverged: train it again with "
            f"a lower learning rate, from the pretrained weights. Received: {outputs[wrong[0]]!s:.100} at position "
            f"{wrong[0]}"
        )
    return outputs


def data_digest(data):
    """Returns a digest of data in memory, a string, with which a later run finds out whether it has the same data."""
    digest = hashlib.sha256()
    _add_to_digest(digest, data, False)
    return digest.hexdigest()[:16]


def _add_to_digest(digest, part, in_list):
    """Adds a part of data to a digest. Files of earlier versions contain digests of data without lists in lists."""
    if isinstance(part, (list, tuple, dict)):
        keys = sorted(part, key=str) if isinstance(part, dict) else range(len(part))
        if in_list:
            digest.update(f"{type(part).__name__} of {list(keys)}".encode(errors="surrogatepass"))
        for key in keys:
            _add_to_digest(digest, part[key], in_list or isinstance(part, list))
        return
    array = np.asarray(part)
    digest.update(repr((array.shape, array.dtype.kind)).encode())
    if array.dtype.kind in "OUS":
        digest.update("\0".join(map(str, array.ravel().tolist())).encode(errors="surrogatepass"))
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view("uint8").data)
