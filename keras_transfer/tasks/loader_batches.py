"""The batches of a loader in the form of data in memory, and what a `tf.data.Dataset` says of its elements."""

from collections.abc import Mapping

import keras

from keras_transfer.core.arrays import to_array
from keras_transfer.data import is_tf_dataset
from keras_transfer.tasks.reader import input_names


def parts_of_batch(task, batch, is_tensors):
    """Returns `(x, y, sample_weight)` of a batch of a loader in the form that `fit` accepts in memory."""
    if is_tensors:
        batch = _plain(batch)
        parts = batch if isinstance(batch, tuple) else (batch,)
    elif _are_texts(batch) or not isinstance(batch, (list, tuple)):
        parts = (batch,)
    elif len(batch) and isinstance(batch[0], Mapping):
        parts = tuple(batch)
    elif task.labels.optional and task.reader.takes_pairs and len(batch) == 2 and all(map(_are_texts, batch)):
        parts = (tuple(map(_listed, batch)),)  # This is a pair of texts.
    else:
        parts = task.reader.batch_of(tuple(batch))
    x = parts[0] if parts else None
    raw = task.reader.accepts(x) and not isinstance(x, (str, bytes))
    is_prepared = not raw and (getattr(x, "ndim", 0) or _are_arrays(x))
    if not 1 <= len(parts) <= 3 or not (raw or is_prepared or isinstance(x, Mapping)):
        advice = " Pass single texts as a list: `list(texts)`." if isinstance(batch, (str, bytes)) else ""
        raise ValueError(
            "A loader must yield batches of what `fit` accepts in memory, such as a list of texts, or a dict of the "
            f"encoder's inputs, alone or as tuples `(x, y)` or `(x, y, sample_weight)`.{advice} "
            f"Received: {batch!r:.200}"
        )
    if isinstance(x, Mapping):
        x = {name: to_array(values) for name, values in x.items()}
    elif is_prepared:
        x = [*map(to_array, x)] if isinstance(x, (list, tuple)) else to_array(x)
    others = [_array(part) for part in parts[1:]]
    return x, *others, *[None] * (2 - len(others))


def _are_arrays(values):
    """Returns whether values are arrays of numbers, in the order of the model's inputs."""
    is_list = isinstance(values, (list, tuple)) and len(values) > 0
    return is_list and all(getattr(each, "ndim", 0) for each in values)


def _array(part):
    if isinstance(part, Mapping):
        return {name: _array(values) for name, values in part.items()}
    return to_array(part) if hasattr(part, "shape") and not hasattr(part, "row_splits") else part


def _listed(column):
    return list(column) if isinstance(column, tuple) else column


def _are_texts(values):
    """Returns whether values are texts of several rows."""
    if isinstance(values, (list, tuple)):
        return any(isinstance(value, (str, bytes)) for value in values)
    return getattr(getattr(values, "dtype", None), "kind", "") in "OSU" and getattr(values, "ndim", 0) > 0


def _plain(batch):
    """Returns an element of a `tf.data.Dataset` with arrays instead of dense tensors."""
    return keras.tree.map_structure(lambda each: each.numpy() if hasattr(each, "numpy") else each, batch)


def check_elements(task, dataset, replicas):
    """Raises a `ValueError` if the elements of a `tf.data.Dataset` are not batches of texts or of the encoder's inputs.

    A batch of texts must be divisible by the number of replicas.
    """
    spec = dataset.element_spec
    columns = spec[0] if isinstance(spec, tuple) and spec else spec
    if isinstance(columns, Mapping):
        _check_keys(spec, columns, input_names(task))
        ranks = {tensor.name: len(tensor.shape) for tensor in task.inputs}
        if any(each.shape.rank == ranks.get(name, 0) - 1 for name, each in columns.items() if hasattr(each, "shape")):
            raise ValueError(f"A `tf.data.Dataset` must be batched: `dataset.batch(32)`. Received: {spec}")
        return
    for text in keras.tree.flatten(columns):
        shape = getattr(text, "shape", None)
        if getattr(text, "dtype", None) != "string" or hasattr(text, "ragged_rank") or shape is None:
            continue
        if shape.rank == 0:
            raise ValueError(f"A `tf.data.Dataset` of texts must be batched: `dataset.batch(32)`. Received: {spec}")
        if (shape.rank or 1) > 1 and not task.reader.takes_lists:
            raise ValueError(
                "Texts in a `tf.data.Dataset` must have the shape [batch]. Remove the last axis, such as with "
                f"`dataset.map(lambda x, y: (tf.squeeze(x, -1), y))`. Received: {spec}"
            )
        if ((shape[0] if shape.rank else None) or 1) % replicas:
            raise ValueError(
                f"The batch size must be a multiple of the number of replicas, {replicas}. Use "
                f"`dataset.batch(batch_size, drop_remainder=True)`. Received: {spec}"
            )


def _check_keys(spec, columns, names):
    """Raises a `ValueError` if the elements of a `tf.data.Dataset` are rows of a table."""
    text = first_text({name: "" for name, each in columns.items() if getattr(each, "dtype", None) == "string"})
    if {*names} & {*columns} or text not in columns:
        return
    label = next((name for name in columns if name != text), "label")
    if isinstance(spec, tuple) and len(spec) > 1:
        function = f"lambda row, *rest: (row[{text!r}], *rest)"
    else:
        function = f"lambda row: (row[{text!r}], row[{label!r}])"
    raise ValueError(
        "A `tf.data.Dataset` must have batches of texts and labels, or a dict of the encoder's inputs "
        f"{names}. Use `dataset.map({function})`, or `tfds.load(name, as_supervised=True)`. "
        f"Received: dicts with the keys {list(columns)}"
    )


def first_text(row):
    """Returns the name of the first column of texts, or "text"."""
    return next((name for name, value in row.items() if isinstance(value, (str, bytes))), "text")


def length_of_all(task, loader):
    """Returns the length of texts in all batches of a `tf.data.Dataset`, if all have the same size, or `None`.

    Such a dataset, as of `batch(batch_size, drop_remainder=True)`, is meant for a step of one static shape.
    """
    if not is_tf_dataset(loader):
        return None
    spec = loader.element_spec
    columns = keras.tree.flatten(spec[0] if isinstance(spec, tuple) and spec else spec)
    sizes = [each.shape[0] if each.dtype == "string" and each.shape.rank == 1 else None for each in columns]
    return None if None in sizes else getattr(task.preprocessor, "sequence_length", None)
