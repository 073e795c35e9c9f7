"""The data of a Fisher information: the examples of a model in batches, and the weight of each example."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transfer.batches import Batches
from keras_transfer.tasks.base import Task
from keras_transfer.tasks.inputs import count_rows, take_rows
from keras_transfer.text.base import is_text

_ROWS = 32  # Number of rows in a batch of arrays.


def example_batches(model, x, y, empirical, samples, random):
    """Yields `(inputs, labels, weights)` for each batch: arrays with a row for each example, or `None`.

    Args:
        model: Model, as for `estimate_fisher`.
        x: Examples, as for `estimate_fisher`.
        y: Labels, as for `estimate_fisher`.
        empirical: Boolean, as for `estimate_fisher`.
        samples: Integer or `None`, as for `estimate_fisher`.
        random: `np.random.Generator`, which draws the samples.
    """
    if not isinstance(model, Task):
        yield from _batches_of(x, y, samples, random)
        return
    raw = model.reader.accepts(x)
    columns = model.reader.columns(x) if raw else x
    y = model.labels.placeholders(columns) if raw and y is None and not empirical else y
    if samples is not None and raw:  # Only the drawn rows are tokenized.
        x, y = _drawn_rows(columns, y, int(samples), random)
        samples = None
    for inputs, targets, weights in _batches_of(model.dataset(x, y), None, samples, random):
        yield inputs, *model.labels.mask(targets, weights)


def _drawn_rows(columns, y, samples, random):
    """Returns randomly drawn rows of raw data and their labels, or all rows if there are at most `samples`."""
    count = count_rows(columns)
    if samples >= count or (y is not None and len(y) != count):  # The task raises the error if the numbers differ.
        return columns, y
    rows = random.choice(count, samples, replace=False)
    return take_rows(columns, rows), take_rows(y, rows)


def _batches_of(x, y, samples, random):
    """Yields the batches of arrays or of a dataset. Rows are drawn if their number is known."""
    dataset, count = x, None
    if _in_memory(x):
        dataset, count = _sliced(x, y)
    elif y is not None:
        raise ValueError(
            f"`y` must be None if `x` is a dataset, which contains the labels. Received: {type(x).__name__} and y"
        )
    elif isinstance(x, Batches):
        x, count = x.grouped(), len(x.order)
        dataset = (x[i] for i in range(len(x)))
    elif isinstance(x, keras.utils.PyDataset):
        dataset = (x[i] for i in (range(len(x)) if samples is None else random.permutation(len(x)).tolist()))
    elif not hasattr(x, "__iter__"):
        raise ValueError(f"`x` must be an array, a dict or list of arrays, texts or a dataset. Received: {x!r:.100}")
    drawn = None
    if count is not None and samples is not None and samples < count:
        drawn = np.isin(np.arange(count), random.choice(count, int(samples), replace=False))
    for batch in dataset:
        batch = [_arrays(part) for part in keras.utils.unpack_x_y_sample_weight(batch)]
        if drawn is not None:
            size = len(keras.tree.flatten(batch[0])[0])
            rows, drawn = np.flatnonzero(drawn[:size]), drawn[size:]
            batch = [take(part, rows) for part in batch]
            if not len(rows):
                continue
        yield batch


def _in_memory(x):
    if is_text(x) and isinstance(x, (list, tuple, str)):
        raise ValueError(
            "Raw text requires a task with a preprocessor. For a model that accepts strings itself, pass an array. "
            f"Received: {x!r:.100}"
        )
    return isinstance(x, (Mapping, list, tuple)) or hasattr(x, "shape")


def _sliced(x, y):
    """Returns a generator of the batches of arrays, and the number of their rows."""
    x, y = _arrays(x), _arrays(y)
    counts = {len(values) if values.ndim else 0 for values in keras.tree.flatten([x] if y is None else [x, y])}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(
            f"`x` and `y` must have the same number of rows, at least one. Received: {sorted(counts)} rows"
        )
    [count] = counts
    slices = [slice(start, start + _ROWS) for start in range(0, count, _ROWS)]
    return ((take(x, rows), take(y, rows)) for rows in slices), count


def _arrays(values):
    """Returns a structure of arrays or tensors with NumPy arrays, or None. A list of numbers becomes one array."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)) and all(np.ndim(value) == 0 for value in values):
        return np.asarray(values)
    return keras.tree.map_structure(ops.convert_to_numpy, values)


def take(values, rows):
    """Returns rows of a structure of arrays, or None."""
    return None if values is None else keras.tree.map_structure(lambda array: array[rows], values)


def tensors(values):
    """Returns arrays, with string arrays converted to tensors because Keras does not accept them."""
    return keras.tree.map_structure(
        lambda array: ops.convert_to_tensor(array) if array.dtype.kind in "OSU" else array, values
    )


def times_of(weight):
    """Returns how many examples an example counts as, and the weight of its loss, whose gradient is squared."""
    if weight is None:
        return 1.0, None
    if not np.all(weight >= 0):
        raise ValueError(f"Sample weights must not be negative. Received: {np.min(weight)}")
    different = set(weight[weight > 0].tolist())
    if len(different) > 1:  # These are weights of positions, not of the example.
        return 1.0, weight
    times = sum(different)
    return times, np.sign(weight).astype("float32") * times**0.5
