"""Loaders (iterables of batches), such as torch's and Grain's, as the data of a task."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import keras
import numpy as np

from keras_transfer.core.arrays import is_lazy, to_array
from keras_transfer.data import of_at_most
from keras_transfer.tasks.columns import check_rows, rows_of
from keras_transfer.tasks.loader_position import position_of
from keras_transfer.tasks.streams import begins_at, is_stream, read_when_asked
from keras_transfer.text import is_text, to_list

_ENDLESS = 2**40  # Grain's endless datasets report a length of about 2**63 batches.


def is_loader(x):
    """Returns whether `x` is an iterable of batches, but not a dataset of Keras or TensorFlow, nor data in memory."""
    others = (Iterator, Collection, keras.utils.PyDataset)  # Unlike a `Collection`, a loader has no `__contains__`.
    if is_stream(x) or not isinstance(x, Iterable) or isinstance(x, others):
        return False
    # Columns of Arrow have `to_pylist`, and columns of Hugging Face datasets are lazy.
    is_column = hasattr(x, "shape") or hasattr(x, "to_pylist") or is_lazy(x)
    return not is_column and not is_text(x)


def stream_of_loader(task, x, prepare):
    """Returns a loader of batches as a stream, and anything else unchanged.

    For a task that makes its targets, a batch is a column of texts, a pair of columns, or a dict of arrays, alone or in
    a tuple with labels. For any other task, a batch is a tuple of what `fit` accepts in memory, and a loader of dicts
    of arrays is returned unchanged.

    `prepare` returns an item, given `(x, y, sample_weight)` of a batch in the form that `fit` accepts. The task keeps
    the error if a batch is invalid.
    """
    if not is_loader(x):
        return x
    batches, length = iter(x), _length_of(x)
    count = None if length is None or length > _ENDLESS else length
    position = position_of(x, batches, has_length=length is not None, num_batches=count)
    if (first := next(batches, batches)) is batches:
        raise ValueError(f"`x` must have at least one batch. Received: {type(x).__name__} without any")
    arrays_of = _arrays_of
    if not task.labels.targets_of_streams:
        if _are_prepared(first):
            return x

        def arrays_of(batch):
            return prepare(*_parts_of(task, batch))

    import tensorflow as tf

    found = arrays_of(first)
    ranks = {tensor.name: len(tensor.shape) for tensor in task.inputs}
    inputs = found[0] if isinstance(found, tuple) and isinstance(found[0], dict) else {}
    # Rows of several texts have equally many in each batch, and a loss that compares them must know how many.
    in_parts = not task.reader.takes_windows and any(inputs[name].ndim > ranks.get(name, 9) for name in inputs)

    def spec_of(array):
        shape = [None, array.shape[1] if in_parts and array.ndim > 2 else None, *[None] * array.ndim][: array.ndim]
        return tf.TensorSpec(shape, tf.string if array.dtype == object else array.dtype)

    form, spec = _form_of(found), tf.nest.map_structure(spec_of, found)
    if count is not None and count < 2 and (count < 1 or next(batches, batches) is not batches):
        raise _too_many(count)

    def generate():
        try:
            yield from _checked(x, position, count, arrays_of, first, form)
        except GeneratorExit:  # TensorFlow stops the iteration early.
            raise
        except BaseException as error:
            task.kept_error = error  # TensorFlow reports it without its type.
            raise

    dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
    if count is not None and position is None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
    elif length is not None:  # A resumed epoch has fewer batches, so the cardinality is only an upper bound.
        dataset = of_at_most(dataset, length)
    # A task that makes its targets inspects the first batch before the run, which must not advance the loader further.
    return begins_at(read_when_asked(dataset) if task.labels.targets_of_streams else dataset, position)


def _length_of(x):
    """Returns the number of batches that a loader reports, or `None`."""
    try:
        return len(x)
    except TypeError:  # torch's `DataLoader` of an `IterableDataset` has `__len__`, but raises this error.
        return None


def _checked(x, position, count, arrays_of, first, form):
    """Yields the batches of one epoch of a loader as arrays, or raises a `ValueError`.

    Args:
        count: Integer. Number of batches that the loader must have, or None.
        form: What `_form_of` returns for the arrays of all batches.
    """
    rest = iter(x) if position is None else position.read()
    number = 0
    for batch in rest:
        number = number or (0 if position is None else position.began)
        found = arrays_of(batch)
        if _form_of(found) != form:
            raise ValueError(
                f"All batches of a loader must have the same form. Received: {batch!r:.100}, after {first!r:.100}"
            )
        number += 1
        if number == count and next(rest, rest) is not rest:  # Keras would silently ignore further batches.
            raise _too_many(count)
        yield found
    if count not in (None, number):
        raise ValueError(f"A loader must have as many batches as its `len()` returns, {count}. Received: {number}")


def _too_many(count):
    return ValueError(f"A loader must have as many batches as its `len()` returns, {count}. Received: more")


def _arrays_of(batch):
    """Returns a batch of a loader as arrays with the same number of rows, in the form of `_columns_of`."""
    found = _columns_of(batch)
    parts = found if isinstance(found, tuple) else (found,)
    check_rows(rows_of(dict(zip(("x", "y", "sample_weight"), parts))))
    return found


def _columns_of(batch):
    """Returns a batch of a loader as arrays: texts, `((texts, texts),)` or a dict, or a tuple with labels."""
    if (inputs := _inputs_of(batch)) is not None:
        return (inputs,) if isinstance(inputs, tuple) else inputs
    if isinstance(batch, (list, tuple)) and len(batch) in (2, 3) and (inputs := _inputs_of(batch[0])) is not None:
        return inputs, *(
            {n: to_array(v) for n, v in y.items()} if isinstance(y, Mapping) else to_array(y) for y in batch[1:]
        )
    raise ValueError(
        "A loader must yield batches: a list of texts, a pair of such lists, or a dict of the encoder's inputs, "
        f"or a tuple of one of these and labels. Received: {batch!r:.200}"
    )


def _inputs_of(batch):
    """Returns texts, a pair of columns of texts, or a dict as arrays, or `None` for anything else."""
    if isinstance(batch, Mapping):
        found = {name: to_array(values) for name, values in batch.items()}
        return found if found and all(array.ndim and array.dtype.kind in "iufb" for array in found.values()) else None
    if isinstance(batch, (list, tuple)) and len(batch) == 2 and all(map(_is_column, batch)):
        return tuple(np.array(to_list(column), object) for column in batch)
    return np.array(to_list(batch), object) if _is_column(batch) else None


def _is_column(values):
    """Returns whether values are texts of several rows."""
    if isinstance(values, (list, tuple)):
        return any(isinstance(value, (str, bytes)) for value in values)
    return not isinstance(values, (str, bytes)) and is_text(values)


def _form_of(batch):
    arrays = keras.tree.flatten_with_path(batch)
    return [(path, array.ndim, array.dtype.kind) for path, array in arrays]


def _are_prepared(batch):
    """Returns whether a batch, alone or in a tuple with labels, is a dict of the encoder's inputs."""
    inputs = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
    return isinstance(inputs, Mapping) and _inputs_of(inputs) is not None


def _parts_of(task, batch):
    """Returns `(x, y, sample_weight)` of a batch in the form that `fit` accepts in memory."""
    parts = batch if isinstance(batch, (list, tuple)) and not _is_column(batch) else (batch,)
    parts = task.reader.batch_of(tuple(parts))
    if not 1 <= len(parts) <= 3 or not task.reader.accepts(parts[0]):
        raise ValueError(
            "A loader must yield what `fit` accepts in memory, as tuples `(x, y)` or `(x, y, sample_weight)`: texts "
            f"and their labels for a `TextClassifier`. Received: {batch!r:.200}"
        )
    x, *others = parts
    others = [to_array(part) if hasattr(part, "shape") else part for part in others]
    return x, *others, *[None] * (2 - len(others))
