"""Data that `Task.dataset` turns into batches: data in memory, streams of texts, and data without rows."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_transfer.batches import Batches, Options
from keras_transfer.distribute import replicas_of
from keras_transfer.keras_internals import build_metrics
from keras_transfer.layers.embeddings import PositionEmbedding
from keras_transfer.text.base import check_rows_of_batches, check_weights, preprocess


class NoRows(keras.utils.PyDataset):
    """The dataset for data without rows.

    Keras fails on it, and kernels fail on empty batches. `predict` therefore returns a result without running the
    model.

    Args:
        columns: Columns without rows, as `columns_of` returns them.
    """

    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return 0


def columns_of(task, x):
    """Returns data in memory as columns that can be sliced, or None if `x` is a dataset.

    Args:
        task: `Task`.
        x: Anything that `Task.dataset` accepts.

    Returns:
        The columns of the task's reader for raw data, or a dict of NumPy arrays for arrays.
    """
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
    _check_ids(task, arrays)
    return arrays


def _check_ids(task, arrays):
    """Raises a `ValueError` if ids are not rows of the encoder's tables; a negative one would read from the end."""
    ids = arrays.get("token_ids")
    if ids is not None and ids.dtype.kind not in "iub" and (ids != np.round(ids)).any():
        place = tuple(np.argwhere(ids != np.round(ids))[0].tolist())
        raise ValueError(f"`token_ids` must be integers. Received: {ids[place]} at position {place}")
    for table in () if ids is None else task.encoder.layers:
        if isinstance(table, PositionEmbedding):
            table.check_length(ids.shape[-1])
    for name, size in (("token_ids", "vocabulary_size"), ("segment_ids", "num_segments")):
        ids, count = arrays.get(name), getattr(getattr(task, "encoder", None), size, None)
        if ids is None or ids.dtype.kind not in "iu" or not ids.size or not count:
            continue
        if ids.min() < 0 or ids.max() >= count:
            place = tuple(np.argwhere((ids < 0) | (ids >= count))[0].tolist())
            raise ValueError(
                f"`{name}` must be from 0 to {count - 1}, because the encoder has {count} of them. "
                f"Received: {ids[place]} at position {place}"
            )


def input_names(task):
    """Returns the names of a functional model's inputs, in their order."""
    return list(task.input) if isinstance(task.input, dict) else [tensor.name for tensor in task.inputs]


def to_numpy(values):
    """Returns an array, a tensor of any framework, or a list as a NumPy array, without a copy if possible."""
    return values if isinstance(values, np.ndarray) else keras.ops.convert_to_numpy(values)


def to_array(values):
    """Returns labels in memory, a list or anything with a shape, as a NumPy array with the dtype that NumPy chooses."""
    return np.asarray(to_numpy(values) if hasattr(values, "shape") else values)


def count_rows(columns):
    """Returns the number of rows of columns: a list or array, a tuple of them, or a dict of arrays."""
    if isinstance(columns, dict):
        columns = tuple(columns.values())
    return len(columns[0] if isinstance(columns, tuple) and columns else columns)


def split_last(columns, y, sample_weight, fraction):
    """Splits off the last rows for validation, as Keras does.

    Args:
        columns: What `columns_of` returns.
        y: Labels, or None.
        sample_weight: Sample weights, or None.
        fraction: Float between 0 and 1. Fraction of the rows to split off.

    Returns:
        Two tuples `(columns, y, sample_weight)`: the first rows, and the others.

    Raises:
        ValueError: If one part would be empty, or if there are not as many labels as rows.
    """
    count = count_rows(columns)
    at = int(count * (1 - fraction))
    labels = count if y is None else len(next(iter(y.values())) if isinstance(y, dict) else y)
    if not 0 < at < count or labels != count:
        raise ValueError(
            "`validation_split` must leave at least one row for each part, and each row must have a label. "
            f"Received: {count} rows, {labels} labels, validation_split={fraction}"
        )

    def take(values, part):
        if isinstance(values, dict):
            return {name: column[part] for name, column in values.items()}
        if isinstance(values, tuple):
            return tuple(column[part] for column in values)
        return values if values is None else (values if isinstance(values, list) else np.asarray(values))[part]

    y = list(y) if isinstance(y, tuple) else y
    return tuple(tuple(take(v, part) for v in (columns, y, sample_weight)) for part in (slice(at), slice(at, None)))


def batch_arrays(columns, y, sample_weight, batch_size, shuffle):
    """Returns prepared arrays as `Batches` and keeps their length.

    Args:
        columns: Dict of arrays [rows, ...].
        y: Array of labels [rows, ...], or None.
        sample_weight: Array of sample weights [rows, ...], or None.
        batch_size: Integer. Number of rows per batch.
        shuffle: Boolean. Whether the rows are shuffled in every epoch.

    Raises:
        ValueError: If the arrays differ in their number of rows, if a sample weight is not finite, or if `batch_size`
            is not positive.
    """
    if isinstance(y, dict):  # of several heads
        y = {name: to_numpy(part) for name, part in y.items()}
    elif y is not None:
        y = to_numpy(y)
    sample_weight = None if sample_weight is None else to_numpy(sample_weight)
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight)
    arrays = {**columns, **(y if isinstance(y, dict) else {"y": y}), "sample_weight": sample_weight}
    rows = {name: len(array) if array.ndim else None for name, array in arrays.items() if array is not None}
    if len(set(rows.values())) > 1:
        raise ValueError(f"Inputs, labels and sample weights must have the same number of rows. Received: {rows}")
    check_rows_of_batches(batch_size)
    length = max((column.shape[1] for column in columns.values() if column.ndim > 1), default=1)
    return Batches(columns, y, sample_weight, Options(batch_size, (length,), shuffle))


def flat_labels(labels):
    """Returns labels [rows, 1] as [rows], and any others unchanged.

    Keras on TensorFlow otherwise fails if a model is trained with labels of both shapes, because the rank of the labels
    of a compiled step is then unknown.
    """
    shape = getattr(labels, "shape", None)
    try:
        shape = np.shape(labels) if shape is None else shape
    except ValueError:  # rows of different lengths, which the check of labels reports
        return labels
    if len(shape) != 2 or shape[1] != 1:
        return labels
    return labels[:, 0] if hasattr(labels, "shape") else [row[0] for row in labels]


def with_flat_labels(dataset):
    """Returns batches or a stream with labels [rows, 1] as [rows], and any other dataset unchanged."""
    if isinstance(dataset, Batches) and dataset.labels is not None:
        labels = flat_labels(dataset.labels)
        return dataset if labels is dataset.labels else dataset.replace(labels=labels)
    spec = dataset.element_spec if is_stream(dataset) else None
    shape = getattr(spec[1], "shape", None) if isinstance(spec, tuple) and len(spec) > 1 else None
    if shape is None or shape.rank != 2 or shape[1] != 1:
        return dataset
    return dataset.map(lambda x, y, *rest: (x, y[:, 0], *rest))


def no_outputs(task, columns):
    """Returns what `predict` returns for data without rows.

    Args:
        task: Functional model.
        columns: Columns without rows. Arrays of shape [0, length] determine the length of the outputs.

    Returns:
        Array of shape [0, ...], or the structure of such arrays that the model returns.
    """
    shapes = [column.shape for column in columns.values()] if isinstance(columns, dict) else []
    length = next((shape[1] for shape in shapes if len(shape) > 1), 0)

    def empty(output):
        shape = (0, *(length if size is None else size for size in output.shape[1:]))
        return keras.ops.convert_to_numpy(keras.ops.zeros(shape, output.dtype))

    return keras.tree.map_structure(empty, task.output)


def prepare_metrics(task, data):
    """Creates the metrics that were given to `compile` by name, given batches or a stream with labels."""
    labels = data.labels if isinstance(data, Batches) else None
    if is_stream(data) and isinstance(data.element_spec, tuple) and len(data.element_spec) > 1:
        labels = data.element_spec[1]
        labels = labels if getattr(labels, "shape", None) else None  # A shape of unknown rank is False.
    if hasattr(labels, "shape"):
        build_metrics(task, labels)


# === Streams ===


def is_stream(x):
    """Returns whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return type(x).__module__.startswith("tensorflow.") and hasattr(x, "element_spec")


def lacks_labels(x):
    """Returns whether `x` is a `tf.data.Dataset` of inputs alone."""
    return is_stream(x) and not (isinstance(x.element_spec, tuple) and len(x.element_spec) > 1)


def texts_of_stream(dataset):
    """Returns a tuple of the specs of a stream's texts, one or two, or an empty tuple if it contains something else."""
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) and len(spec) in (2, 3) else spec
    texts = inputs[0] if isinstance(inputs, tuple) and len(inputs) == 1 else inputs
    texts = texts if isinstance(texts, tuple) else (texts,)
    return texts if all(getattr(part, "dtype", None) == "string" for part in texts) else ()


def preprocess_stream(preprocessor, dataset):
    """Converts a `tf.data.Dataset` of batches of texts to the encoder's inputs, and returns any other unchanged.

    Raises:
        ValueError: If the texts are not batched, or if the labels are strings.
    """
    spec, texts = dataset.element_spec, texts_of_stream(dataset)
    if not texts:
        return dataset
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == "string":
        raise ValueError(
            "Labels must be numbers. Pairs of texts without labels must be nested: `((text, text_pair),)`. "
            f"Received: {spec}"
        )
    if any(len(text.shape) != 1 for text in texts):
        raise ValueError(f"A `tf.data.Dataset` of texts must be batched: `dataset.batch(32)`. Received: {spec}")

    def prepare(x, *rest):
        x = preprocess(preprocessor, x)
        return (x, *rest) if rest else x

    return dataset.map(prepare, num_parallel_calls=-1).prefetch(-1)


def check_stream_shares(task, dataset, method):
    """Raises a `ValueError` if the replicas must share each batch of a stream of texts evenly but cannot."""
    texts = texts_of_stream(dataset)
    if not texts:  # prepared inputs, which Keras shards
        return
    (replicas, evenly), size = replicas_of(task), texts[0].shape[0]
    if (method == "fit" or evenly) and (size or 1) % replicas:
        raise ValueError(
            f"The batch size must be a multiple of the number of replicas, {replicas}. Use "
            f"`dataset.batch(batch_size, drop_remainder=True)`. Received: {dataset.element_spec}"
        )
