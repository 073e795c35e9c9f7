"""How the user's data is turned into the form that Keras expects: checks, labels, batches or streams, and targets."""

import logging

import keras

from keras_transfer.core.arrays import check_weights, to_array, without_float64
from keras_transfer.core.names import listed
from keras_transfer.data import Batches, are_parts, times_class_weights
from keras_transfer.distribute import check_distribution, check_stream, replicas_of, share
from keras_transfer.keras_internals import build_metrics, optimizers
from keras_transfer.tasks.checks import check_lengths, require_compiled
from keras_transfer.tasks.columns import (
    batch_arrays,
    check_rows,
    columns_of,
    count_rows,
    input_names,
    rows_of,
    split_last,
)
from keras_transfer.tasks.input_checks import (
    NoRows,
    check_columns,
    check_inputs,
    check_kind,
    check_no_windows,
    checked_batches,
    kind_of,
    validation_parts,
)
from keras_transfer.tasks.loader_position import check_apart
from keras_transfer.tasks.loaders import is_loader, stream_of_loader
from keras_transfer.tasks.reader import ALL_ROWS
from keras_transfer.tasks.streams import (
    begins_at,
    check_stream_shares,
    draws_like,
    epochs_trained,
    fix_targets,
    input_names_of,
    is_stream,
    lacks_labels,
    log_length,
    of_all_places,
    position_of_stream,
    stream_without_float64,
    with_weights_of_all_places,
    with_weights_of_places,
)
from keras_transfer.training import TrainingCheckpoint

log = logging.getLogger("keras_transfer")


def batches_or_stream(task, columns, x, y, sample_weight, batch_size, shuffle):
    """Returns data as `Task.dataset` does, without targets, given encoded labels and what `columns_of` returns."""
    if columns is None:
        if y is not None or sample_weight is not None:
            raise ValueError(
                "`y` and `sample_weight` must be None if `x` is a dataset, which contains them. "
                f"Received: x of type {type(x).__name__}, and {'sample_weight' if y is None else 'y'}"
            )
        return task.reader.stream(stream_without_float64(x)) if is_stream(x) else x
    if count_rows(columns) == 0:
        return NoRows(columns)
    if batch_size is None:
        replicas, _ = replicas_of(task)
        batch_size = -(-32 // replicas) * replicas
    if isinstance(columns, dict):
        return batch_arrays(columns, y, sample_weight, batch_size, shuffle)
    check_lengths(task)
    return task.reader.batches(columns, y, sample_weight, batch_size, shuffle)


def stream_of(task, x, method):
    """Returns a loader as a stream of the items that a method of Keras expects, and anything else unchanged."""
    replicas, evenly = replicas_of(task)
    filled = evenly and replicas > 1 and method != "predict"

    def item(x, y, sample_weight):
        if method == "predict" and (not task.reader.takes_either or task.reader.takes_windows):
            raise ValueError(
                f"`predict` of a `{type(task).__name__}` requires raw data in memory, or prepared inputs. Pass all "
                "rows at once, or call the method for each batch. Received: a loader of raw data"
            )
        y, sample_weight = (None, None) if method == "predict" else (y, sample_weight)
        columns = _checked_columns(task, method, x, y, sample_weight)
        if y is not None:
            y = task.labels.encode(y)
            task.labels.check(y, task.loss)
        data = batches_or_stream(task, columns, x, y, sample_weight, ALL_ROWS, False)
        data = data if method == "predict" else _with_targets(task, data)
        if isinstance(data, NoRows) or (method != "predict" and not data.has_labels):
            received = "no rows" if isinstance(data, NoRows) else "no labels"
            raise ValueError(f"Each batch of a loader must have at least one row, and labels. Received: {received}")
        return (data.replace(replicas=replicas, filled=True) if filled else data)[0]

    return stream_of_loader(task, x, item)


def _checked_columns(task, method, x, y, sample_weight):
    """Checks what was passed, and returns what `columns_of` returns for `x`."""
    # A dict of labels has all targets, so the task creates no inputs for them.
    check_inputs(task, x, () if isinstance(y, dict) or method == "predict" else task.labels.made_inputs)
    check_columns(x, y, sample_weight)
    return columns_of(task, x)


def ready_data(task, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False):
    """Returns the user's data in the form that `fit`, `evaluate` or `predict` needs on the model's replicas."""
    task.reader.check(x, method)
    task.head_adapters.check()
    check_distribution(task)
    is_checked = is_loader(x) and not task.labels.targets_of_streams  # Each batch is checked like data in memory.
    x = stream_of(task, x, method)
    if is_stream(x):
        check_stream(task, method)
    is_checked, position = is_checked and is_stream(x), position_of_stream(x)
    columns = _checked_columns(task, method, x, y, sample_weight)
    y = None if y is None else task.labels.encode(y)
    labels = y
    if isinstance(x, Batches):
        labels = x.labels
        check_no_windows(x, task)
        x.check_preprocessor(task.preprocessor)
    if labels is not None:
        task.labels.check(labels, task.loss)
    data = batches_or_stream(task, columns, x, y, sample_weight, batch_size, shuffle)
    if method == "predict":
        _check_made_inputs(task, data)
    if isinstance(data, Batches) and data.contents.prepare is None:
        task.labels.check_inputs(data.inputs, data.labels)
    data = data if method == "predict" else _with_targets(task, data)
    if method != "predict" and isinstance(data, NoRows):
        raise ValueError("`x` must have at least one row. Received: no rows")
    if method != "predict" and isinstance(data, Batches) and not data.has_labels:
        raise ValueError(f"`{method}` requires labels. Received: y=None")
    if method != "predict" and not task.labels.optional and lacks_labels(data):
        raise ValueError(
            f"`{method}` requires a dataset of `(inputs, labels)`. Received: a `tf.data.Dataset` of {data.element_spec}"
        )
    if is_stream(x) and data is not x:
        check_stream_shares(task, x, method)
        if method == "fit":
            log_length(task.preprocessor, x)
    if method == "evaluate":
        data = data.apart(one_epoch=True) if isinstance(data, Batches) else data
        fix_targets(data)
    elif isinstance(data, Batches) and not isinstance(x, Batches) and data.contents.seed is not None:
        data.epoch = epochs_trained(task)
    if method != "predict" and task.labels.compares_rows and are_parts(data):
        task.labels.check_batch(data[0][0], min(data.options.batch_size, len(data.order)), task)
    _prepare_metrics(task, data)
    if isinstance(data, Batches):
        return share(task, data, method)
    found = data if is_checked else draws_like(checked_batches(task, data, method), data)
    return begins_at(found, position)


def _with_targets(task, data):
    """Returns data with the targets of the task, and with the weights of its rows for each of them."""
    data = task.labels.targets(data, task)
    return with_weights_of_all_places(data) if task.labels.are_ids or task.labels.of_places else data


def _check_made_inputs(task, data):
    """Raises a `ValueError` if a stream for `predict` lacks model inputs that only `fit` and `evaluate` make."""
    names = input_names_of(data) if is_stream(data) else None
    if names is not None and not set(task.labels.made_inputs) & set(input_names(task)) <= set(names):
        raise ValueError(
            f"`predict` requires prepared inputs{task.reader.advice()}. Received: a `tf.data.Dataset` with the inputs "
            f"{names}"
        )


def ready_for_fit(
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
    """Returns the training data, the validation data or `None`, and `class_weight` in the form that Keras expects.

    It also sets the attribute `fitted_on` of the task.
    """
    if validation_split and validation_data is None:  # As in Keras, the data takes precedence.
        columns = _checked_columns(task, "fit", x, y, sample_weight)
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
    kind = kind_of(task, x)
    if validation_data is not None:
        parts = validation_parts(task, validation_data)
        check_kind(task, parts[0], kind)
        size = batch_size if validation_batch_size is None else validation_batch_size
        validation_data = ready_data(task, "evaluate", *parts, batch_size=size)
    data = ready_data(task, "fit", x, y, sample_weight, batch_size, bool(shuffle))
    if class_weight is not None:
        labels = data.labels if isinstance(data, Batches) else None
        data, class_weight = _with_class_weights(task, data, task.labels.class_weight(class_weight, labels))
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks) or [])
    if any(isinstance(callback, TrainingCheckpoint) for callback in callbacks):
        check_apart(position_of_stream(data), position_of_stream(validation_data))
    task.fitted_on = kind
    return data, validation_data, class_weight


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


def _with_class_weights(task, data, class_weight):
    """Returns data whose sample weights are multiplied by those of the classes, and the class weights for Keras.

    Keras accepts either sample weights or class weights, and class weights for labels of rows only.
    """
    of_places = task.labels.of_places
    if isinstance(data, Batches) and data.labels is not None and (of_places or data.sample_weight is not None):
        weights = times_class_weights(data.sample_weight, data.labels, class_weight, of_places)
        return data.replace(sample_weight=weights), None
    if not is_stream(data):
        return data, class_weight
    if isinstance(data.element_spec, tuple) and len(data.element_spec) > 2:
        raise ValueError(
            "`class_weight` cannot be used with a dataset that contains sample weights. Multiply these by the weights "
            f"of the classes. Received: class_weight={class_weight!r:.100}, and a dataset of {data.element_spec}"
        )
    if not of_places:
        return data, class_weight
    return with_weights_of_places(data, class_weight), None


def ready_batch(task, method, x, y, sample_weight):
    """Returns `(x, y, sample_weight)` with prepared inputs, for a method that accepts one batch."""
    task.head_adapters.check()
    require_compiled(task, method)
    check_columns(x, y, sample_weight)
    raw = task.reader.accepts(x)
    if y is not None:
        y = task.labels.encode(y)
        task.labels.check(y, task.loss, x if isinstance(x, dict) else None)
    if not raw:
        if sample_weight is not None:
            check_weights(to_array(sample_weight))
        if isinstance(x, dict):
            labels = to_array(y) if isinstance(y, list) else y
            check_rows(rows_of({"x": x, "y": labels, "sample_weight": sample_weight}))
            task.labels.check_inputs(x, y)
            task.labels.check_batch(x, len(next(iter(x.values()))), task)
        if task.labels.are_ids or task.labels.of_places:
            sample_weight = of_all_places(y, sample_weight)
        return x, without_float64(y), without_float64(sample_weight)
    data = batches_or_stream(task, columns_of(task, x), x, y, sample_weight, ALL_ROWS, False)
    data = task.labels.targets(data, task)
    if isinstance(data, NoRows) or not data.has_labels:
        received = "no rows" if isinstance(data, NoRows) else "y=None"
        raise ValueError(f"Raw text must have at least one row, and labels. Received: {received}")
    if method == "test_on_batch":
        data = data.replace(one_epoch=True)
    elif data.contents.seed is not None:  # The same seed draws other targets in each step.
        data.epoch = optimizers.batch_count(task.optimizer)
    inputs, labels, *weights = data[0]
    task.labels.check_batch(inputs, len(next(iter(inputs.values()))), task)
    return inputs, labels, weights[0] if weights else None


def _prepare_metrics(task, data):
    """Creates the metrics that `compile` received by name, given batches or a stream with labels.

    A run that is resumed within an epoch restores the metrics before it sees a batch, including the metrics of targets
    that the task makes.
    """
    labels = None
    if isinstance(data, Batches):
        labels = task.labels.made_targets if data.contents.makes_labels else data.labels
    elif is_stream(data) and isinstance(data.element_spec, tuple) and len(data.element_spec) > 1:
        labels = data.element_spec[1]
    parts = keras.tree.flatten(labels)
    # A shape of unknown rank is falsy.
    if labels is not None and all(getattr(part, "shape", None) for part in parts):
        build_metrics(task, labels)
