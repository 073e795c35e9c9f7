"""The front door of a task: whatever the user passes becomes one value, `Batches` in memory or a `Stream` of them."""

import logging
import math
from collections.abc import Mapping

import keras
import numpy as np

from keras_transfer.core.arrays import to_array
from keras_transfer.core.names import listed
from keras_transfer.data import Batches, are_parts, compiles_each_length, fit_to, times_class_weights
from keras_transfer.distribute import agree, check_distribution, check_stream, replicas_of, share
from keras_transfer.keras_internals import build_for_step, build_metrics, optimizers
from keras_transfer.tasks.checks import check_lengths, require_compiled
from keras_transfer.tasks.columns import batch_arrays, columns_of, count_rows, split_last
from keras_transfer.tasks.input_checks import (
    NoRows,
    check_columns,
    check_elements,
    check_inputs,
    check_kind,
    check_no_windows,
    kind_of,
    validation_parts,
)
from keras_transfer.tasks.labels import flat_labels
from keras_transfer.tasks.reader import ALL_ROWS, Reader
from keras_transfer.tasks.stream import Stream, check_apart, is_loader, is_tf_dataset
from keras_transfer.training import TrainingCheckpoint

log = logging.getLogger("keras_transfer")


def read_data(task, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False, class_weight=None):
    """Returns the user's data as `Batches`, as a `Stream`, as `NoRows`, or unchanged if it is another dataset of Keras.

    For the method `dataset`, labels may be those of any loss.
    """
    x = x.made_from.whole() if isinstance(getattr(x, "made_from", None), Stream) else x
    check_columns(x, y, sample_weight)
    if isinstance(x, Batches):
        _check_alone(x, y, sample_weight)
        check_no_windows(x, task)
        x.check_preprocessor(task.preprocessor)
        if x.labels is not None:
            task.labels.check(x.labels, task.loss)
        return _complete(task, method, x, class_weight)
    if is_loader(x):
        _check_alone(x, y, sample_weight)
        return _stream_of(task, method, x, class_weight)
    check_inputs(task, x, () if isinstance(y, dict) or method == "predict" else task.labels.made_inputs)
    columns = columns_of(task, x)
    if columns is None:
        _check_alone(x, y, sample_weight)
        return x
    if y is not None:
        y = task.labels.encode(y)
        if method != "dataset":
            task.labels.check(y, task.loss)
    return _in_memory(task, method, columns, y, sample_weight, batch_size, shuffle, class_weight)


def _check_alone(x, y, sample_weight):
    """Raises a `ValueError` if labels or weights are passed beside a dataset."""
    if y is not None or sample_weight is not None:
        raise ValueError(
            "`y` and `sample_weight` must be None if `x` is a dataset, which contains them. "
            f"Received: x of type {type(x).__name__}, and {'sample_weight' if y is None else 'y'}"
        )


def _in_memory(task, method, columns, y, sample_weight, batch_size, shuffle, class_weight=None, seed=None):
    """Returns columns and encoded labels as `Batches` with the targets of the task, or as `NoRows`."""
    if count_rows(columns) == 0:
        return NoRows(columns)
    if batch_size is None:
        replicas, _ = replicas_of(task)
        batch_size = -(-32 // replicas) * replicas
    if isinstance(columns, dict):
        data = batch_arrays(columns, y, sample_weight, batch_size, shuffle)
    else:
        check_lengths(task)
        data = task.reader.batches(columns, y, sample_weight, batch_size, shuffle)
    if seed is not None:
        data.seed = seed
    return _complete(task, method, data, class_weight)


def _complete(task, method, data, class_weight=None):
    """Returns `Batches` with the targets of the task, and with weights for each target."""
    labels = task.labels
    if data.contents.prepare is None:
        labels.check_inputs(data.inputs, data.labels)
    if method == "predict":
        return data
    if labels.per_row and (flat := flat_labels(data.labels)) is not data.labels:
        data = data.replace(labels=flat)
    data = labels.targets(data, task)
    if labels.are_ids or labels.of_places:
        data = _with_weights_of_all_places(data)
    if class_weight is None or not data.has_labels:
        return data
    class_weight = labels.class_weight(class_weight, data.labels)
    return data.replace(
        sample_weight=times_class_weights(data.sample_weight, data.labels, class_weight, labels.of_places)
    )


def _with_weights_of_all_places(data):
    """Returns prepared batches whose weights of rows are those of all places of their labels [rows, places]."""
    weights, shape = data.sample_weight, np.shape(data.labels)
    if data.contents.prepare or np.ndim(weights) != 1 or len(shape) != 2:
        return data
    return data.replace(sample_weight=np.broadcast_to(np.asarray(weights)[:, None], shape))


# === Streams ===


def _stream_of(task, method, x, class_weight):
    """Returns a loader as a `Stream` of the items that a method of Keras expects."""
    replicas, evenly = replicas_of(task)
    filled = evenly and replicas > 1 and method != "predict"
    fixed, labels = method == "evaluate", task.labels
    check_stream(task, method)
    if is_tf_dataset(x):
        check_elements(task, x, replicas if method == "fit" or evenly else 1)
    if class_weight is not None:
        labels.class_weight(class_weight)  # An error belongs in front of the run, and not in its first batch.
    length, seed = _length_of_all(task, x), None
    if labels.made_inputs and method != "predict":
        seed = 0 if fixed else agree(np.random.randint(2**31), task)

    def prepare(batch, epoch, number):
        try:
            data = _batch(task, method, x, batch, class_weight, seed, length)
        except ValueError as error:
            raise ValueError(f"Invalid data in a batch of the dataset. {error}") from None
        data = data.replace(number=number, one_epoch=fixed)
        data.epoch = epoch
        return data.replace(replicas=replicas, filled=True) if filled else data

    ranks = {} if task.reader.takes_windows else {tensor.name: len(tensor.shape) for tensor in task.inputs}
    is_static = length is not None
    return Stream(x, prepare, epoch=epochs_trained(task), one_epoch=fixed, rank_of=ranks, is_static=is_static)


def _length_of_all(task, loader):
    """Returns the length of texts in all batches of a `tf.data.Dataset`, if all have the same size, or `None`.

    Such a dataset, as of `batch(batch_size, drop_remainder=True)`, is meant for a step of one static shape.
    """
    if not is_tf_dataset(loader):
        return None
    spec = loader.element_spec
    columns = keras.tree.flatten(spec[0] if isinstance(spec, tuple) and spec else spec)
    sizes = [each.shape[0] if each.dtype == "string" and each.shape.rank == 1 else None for each in columns]
    return None if None in sizes else getattr(task.preprocessor, "sequence_length", None)


def _batch(task, method, loader, batch, class_weight, seed, length=None):
    """Returns a batch of a loader as `Batches` with one batch, whose texts are padded to a length, if there is one."""
    x, y, sample_weight = _parts_of(task, batch, is_tf_dataset(loader))
    raw = task.reader.accepts(x)
    task.reader.check(x, method)
    if method == "predict":
        y = sample_weight = None
        if raw and type(task.reader).restore is not Reader.restore:
            raise ValueError(
                f"`predict` of a `{type(task).__name__}` requires raw data in memory, or prepared inputs. Pass all "
                "rows at once, or call the method for each batch. Received: a loader of raw data"
            )
    check_inputs(task, x, () if isinstance(y, dict) or method == "predict" else task.labels.made_inputs)
    check_columns(x, y, sample_weight)
    columns = columns_of(task, x)
    if y is not None:
        # Numbers in a dataset are positions: whether they are names would depend on the rows of a batch.
        y = y if _are_numbers(y) else task.labels.encode(y)
        task.labels.check(y, task.loss)
    data = _in_memory(task, method, columns, y, sample_weight, ALL_ROWS, False, class_weight, seed)
    if isinstance(data, NoRows):
        raise ValueError("Each batch must have at least one row. Received: no rows")
    if method != "predict" and task.labels.compares_rows and are_parts(data):
        task.labels.check_batch(data[0][0], len(data.order), task)
    if not raw or "padding_mask" not in data.inputs:
        return data
    if length is None and compiles_each_length():
        longest = int(data.real.max())
        most = getattr(task.encoder, "max_sequence_length", None) or math.inf
        length = max(min(1 << max(longest - 1, 15).bit_length(), most), longest)
    return data if length is None else _padded(data, length)


def _are_numbers(labels):
    """Returns whether labels, or those of all heads, are arrays or lists of numbers."""
    if isinstance(labels, Mapping):
        return all(map(_are_numbers, labels.values()))
    try:
        return to_array(labels).dtype.kind in "biuf"
    except ValueError:  # Rows differ in length.
        return False


def _parts_of(task, batch, is_tensors):
    """Returns `(x, y, sample_weight)` of a batch of a loader in the form that `fit` accepts in memory."""
    if is_tensors:
        batch = _plain(batch)
        parts = batch if isinstance(batch, tuple) else (batch,)
    elif _is_column(batch) or not isinstance(batch, (list, tuple)):
        parts = (batch,)
    elif len(batch) and isinstance(batch[0], Mapping):
        parts = tuple(batch)
    elif task.labels.optional and task.reader.takes_pairs and len(batch) == 2 and all(map(_is_column, batch)):
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


def _is_column(values):
    """Returns whether values are texts of several rows."""
    if isinstance(values, (list, tuple)):
        return any(isinstance(value, (str, bytes)) for value in values)
    return getattr(getattr(values, "dtype", None), "kind", "") in "OSU" and getattr(values, "ndim", 0) > 0


def _plain(batch):
    """Returns an element of a `tf.data.Dataset` with arrays instead of dense tensors."""
    return keras.tree.map_structure(lambda each: each.numpy() if hasattr(each, "numpy") else each, batch)


def _padded(data, length):
    """Returns batches of texts that are padded to a length."""
    inputs = {name: fit_to(column, length, 1 + data.contents.in_parts) for name, column in data.inputs.items()}
    data = data.replace(lengths=(length,), inputs=inputs)
    if not data.contents.per_token or data.labels is None:
        return data
    weights = None if data.sample_weight is None else fit_to(data.sample_weight, length)
    return data.replace(labels=fit_to(data.labels + 1, length) - 1, sample_weight=weights)  # Padding is UNUSED.


# === Methods ===


def source_of(task, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False, class_weight=None):
    """Returns the user's data in the form that `fit`, `evaluate` or `predict` needs on the model's replicas."""
    task.reader.check(x, method)
    check_distribution(task)
    data = read_data(task, method, x, y, sample_weight, batch_size, shuffle, class_weight)
    if method != "predict":
        _require_labels(task, method, data)
        _prepare_metrics(task, data)
    if not isinstance(data, Batches):
        return data
    if method == "evaluate":
        data = data.apart(one_epoch=True)
    elif not isinstance(x, Batches) and data.contents.seed is not None:
        data.epoch = epochs_trained(task)
    if method != "predict" and task.labels.compares_rows and are_parts(data):
        task.labels.check_batch(data[0][0], min(data.options.batch_size, len(data.order)), task)
    return share(task, data, method)


def _require_labels(task, method, data):
    """Raises a `ValueError` if data for training or evaluation has no rows, or no labels."""
    if isinstance(data, NoRows):
        raise ValueError("`x` must have at least one row. Received: no rows")
    if isinstance(data, Batches) and not data.has_labels:
        raise ValueError(f"`{method}` requires labels. Received: y=None")
    if isinstance(data, Stream) and not data.has_labels:
        raise ValueError(f"`{method}` requires a dataset of `(inputs, labels)`. Received: batches without labels")


def epochs_trained(task):
    """Returns in how many epochs a task was trained, so that another `fit` with the same seed draws other targets."""
    return sum(record.epochs for record in task.fits)


def sources_of_fit(
    task,
    x,
    y,
    *,
    sample_weight,
    batch_size,
    shuffle,
    class_weight,
    validation_split,
    validation_data,
    validation_batch_size,
    callbacks,
):
    """Returns the training data, and the validation data or `None`, and sets the attribute `fitted_on` of the task."""
    if validation_split and validation_data is None:  # As in Keras, the data takes precedence.
        check_inputs(task, x, () if isinstance(y, dict) else task.labels.made_inputs)
        check_columns(x, y, sample_weight)
        columns = None if is_loader(x) else columns_of(task, x)
        if columns is None:
            raise ValueError(
                "`validation_split` requires data in memory. Pass `validation_data` for a dataset. "
                f"Received: validation_split={validation_split}, x of type {type(x).__name__}"
            )
        if y is None and not task.labels.optional:
            raise ValueError("`validation_split` requires labels. Received: y=None")
        y = y if y is None else task.labels.of_any_rows(y)
        (x, y, sample_weight), validation_data = split_last(columns, y, sample_weight, validation_split)
        if task.label_names is not None and y is not None:
            _warn_of_untrained(y, validation_data[1])
    if validation_data is not None:
        size = batch_size if validation_batch_size is None else validation_batch_size
        validation_data = source_of(task, "evaluate", *validation_parts(task, validation_data), batch_size=size)
    data = source_of(task, "fit", x, y, sample_weight, batch_size, bool(shuffle), class_weight)
    kind = kind_of(data) if task.reader.takes_either else None
    if validation_data is not None:
        check_kind(task, validation_data, kind)
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks) or [])
    if any(isinstance(callback, TrainingCheckpoint) for callback in callbacks):
        check_apart(getattr(data, "position", None), getattr(validation_data, "position", None))
    task.fitted_on = kind
    return data, validation_data


def _warn_of_untrained(labels, held_out):
    """Logs a warning if classes occur in the last rows only, as in a file that is sorted by its labels."""
    parts = (getattr(part, "tolist", lambda part=part: part)() for part in (labels, held_out))
    train, last = ({label for label in part if isinstance(label, (str, int))} for part in parts)
    if missing := last - train:
        log.warning(
            "`validation_split` holds out the last rows, and the classes %s occur only there, so nothing is trained on "
            "them. Shuffle the rows, or pass `validation_data` from `datasets.hold_out`, which divides each class.",
            listed(sorted(missing, key=str)),
        )


def batch_of(task, method, x, y, sample_weight, class_weight=None):
    """Returns `(x, y, sample_weight)` with prepared inputs, for a method that accepts one batch, and its kind."""
    require_compiled(task, method)
    data = read_data(task, "fit", x, y, sample_weight, ALL_ROWS, False, class_weight)
    if not isinstance(data, Batches) or not data.has_labels:
        received = "no rows" if isinstance(data, NoRows) else "y=None" if y is None else type(x).__name__
        raise ValueError(f"A batch must have at least one row, and labels. Received: {received}")
    kind = kind_of(data) if task.reader.takes_either else None
    if method == "test_on_batch":
        check_kind(task, data, task.fitted_on)
        data = data.replace(one_epoch=True)
    elif data.contents.seed is not None:  # The same seed draws other targets in each step.
        data.epoch = optimizers.batch_count(task.optimizer)
    inputs, labels, *weights = data[0]
    task.labels.check_batch(inputs, len(next(iter(inputs.values()))), task)
    return (inputs, labels, weights[0] if weights else None), kind


def _prepare_metrics(task, data):
    """Creates the metrics that `compile` received by name.

    A run that is resumed within an epoch restores the metrics before it sees a batch, including the metrics of targets
    that the task makes.
    """
    if keras.backend.backend() != "tensorflow":
        if isinstance(data, Stream) and data.is_read_once:
            build_for_step(task, data.first[0])  # Otherwise, Keras takes the first batch for this.
        return
    if isinstance(data, Stream):
        build_metrics(task, data.spec[1])
    elif isinstance(data, Batches):
        build_metrics(task, data.pinned(data.extremes())[1][1])
