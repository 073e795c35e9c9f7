"""The front door of a task: whatever the user passes becomes one value, a `Source`. Errors about forms are here."""

import dataclasses
import logging
import math
import numbers
import os
import types
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, ValuesView
from typing import Any

import keras
import numpy as np

from keras_transfer.core.arrays import check_weights, is_lazy, to_array, to_numpy, whole_column
from keras_transfer.core.expect import expect
from keras_transfer.core.names import listed
from keras_transfer.core.precision import device_of_torch
from keras_transfer.data import (
    Batches,
    Contents,
    GivenDataset,
    Layout,
    NoRows,
    Stream,
    compiles_each_length,
    fit_to,
    is_tf_dataset,
)
from keras_transfer.distribute import agree, check_distribution, check_stream, replicas_of, share
from keras_transfer.encoders import TransformerStack, check_ids
from keras_transfer.keras_internals import build_for_step, build_metrics, optimizers
from keras_transfer.tasks.checks import check_sizes, require_compiled
from keras_transfer.tasks.loader_batches import check_elements, first_text, length_of_all, parts_of_batch
from keras_transfer.tasks.named_heads import NamedLabels
from keras_transfer.tasks.reader import ALL_ROWS, Reader, check_kind, check_no_windows, input_names, kind_of
from keras_transfer.tasks.token_targets import TokenTargets
from keras_transfer.text import check_rows_of_batches, is_text

log = logging.getLogger("keras_transfer")
TOKENS = 1024  # of a batch of `predict` on a CPU. More of them leave its caches.
MIN_ROWS = 4  # of such a batch of a Transformer. For a tiny one, a batch costs more than `BATCH_COST` tokens.


@dataclasses.dataclass(frozen=True)
class Rows:
    """Data in memory that was read: columns, as of `_columns_of`, encoded labels or `None`, and weights or `None`."""

    columns: Any
    labels: Any = None
    weights: Any = None

    def split_last(self, fraction):
        """Returns the first rows, and the last ones, a fraction of all, which Keras validates on."""
        count, labels = count_rows(self.columns), self.labels
        at = int(count * (1 - fraction))
        found = count if labels is None else len(next(iter(labels.values())) if isinstance(labels, dict) else labels)
        rule = (
            "`validation_split` must leave at least one row for training and one for validation, and each row must "
            "have a label."
        )
        expect(0 < at < count and found == count, rule, rows=count, labels=found, validation_split=fraction)
        labels = list(labels) if isinstance(labels, tuple) else labels
        parts = slice(at), slice(at, None)
        return [Rows(*(take_rows(each, part) for each in (self.columns, labels, self.weights))) for part in parts]


def read_data(task, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False, class_weight=None):
    """Returns the user's data as a `Source`, with the targets of the task.

    For the method `dataset`, labels may be those of any loss.
    """
    x = getattr(x, "made_from", x)
    x = x.whole() if isinstance(x, Stream) else x
    if isinstance(x, Rows):
        return _in_memory(task, method, x, batch_size, shuffle, class_weight)
    task.reader.check(x, method)
    is_stream = is_loader(x)
    rows = None if is_stream or isinstance(x, Batches) else _rows_of(task, method, x, y, sample_weight)
    if rows is not None:
        return _in_memory(task, method, rows, batch_size, shuffle, class_weight)
    if y is not None or sample_weight is not None:
        raise ValueError(
            "`y` and `sample_weight` must be None if `x` is a dataset, which contains them. "
            f"Received: x of type {type(x).__name__}, and {'sample_weight' if y is None else 'y'}"
        )
    if is_stream:
        return _stream_of(task, method, x, class_weight)
    if not isinstance(x, Batches):
        return x if isinstance(x, NoRows) else GivenDataset(x)
    check_no_windows(x, task)
    x.check_preprocessor(task.preprocessor)
    if x.labels is not None:
        task.labels.check(x.labels, task.loss)
    return _complete(task, method, x, class_weight)


def is_loader(x):
    """Returns whether `x` is an iterable of batches, but not a dataset of Keras, nor data in memory."""
    if type(x).__module__.startswith("tensorflow."):  # A dataset that is distributed already goes to Keras.
        return is_tf_dataset(x)
    if isinstance(x, types.GeneratorType):
        return True
    others = (Iterator, Collection, keras.utils.PyDataset)  # Unlike a `Collection`, a loader has no `__contains__`.
    if not isinstance(x, Iterable) or isinstance(x, others):
        return False
    # Columns of Arrow have `to_pylist`, and columns of Hugging Face datasets are lazy.
    is_column = hasattr(x, "shape") or hasattr(x, "to_pylist") or is_lazy(x)
    return not is_column and not is_text(x)


def _rows_of(task, method, x, y, sample_weight, in_batches=False):
    """Returns data in memory as `Rows`, or `None` if `x` is a dataset.

    Numbers in the batches of a dataset are positions: whether they are names would depend on the rows of a batch.
    """
    check_columns(x, y, sample_weight)
    if isinstance(sample_weight, Mapping):
        names = list(task.labels.labels) if isinstance(task.labels, NamedLabels) else []
        rule = f"`sample_weight` must be an array, or a dict with the weights of each of several heads, {names}."
        expect(sample_weight.keys() == {*names}, rule, keys=list(sample_weight))
    made = () if isinstance(y, dict) or method.startswith("predict") else task.labels.made_inputs
    columns = _columns_of(task, x, made)
    if columns is None:
        return None
    if y is not None:
        y = y if in_batches and _are_numbers(y) else task.labels.encode(y)
        if method != "dataset":
            task.labels.check(y, task.loss)
    return Rows(columns, y, sample_weight)


def _columns_of(task, x, made):
    """Returns data in memory as columns that can be sliced, or `None` if `x` is a dataset.

    Inputs of the encoder whose names are in `made` may be missing, because the task makes them.
    """
    if task.reader.accepts(x):
        task.reader.require()
        return task.reader.columns(x)
    names = input_names(task)
    needed = [name for name in names if name not in made]
    x = whole_column(x)
    if isinstance(x, Iterator):
        raise ValueError(
            "`x` must not be an iterator, such as `zip(...)`. Pass texts as a list, pairs of texts as a tuple of two "
            f"lists, and labels as `y`. Received: x of type {type(x).__name__}"
        )
    if isinstance(x, os.PathLike):
        raise ValueError(
            "`x` must be texts and not a file. Read it first, such as with `keras_transfer.datasets.read_table(path, "
            f"text_column, label_column)`. Received: x={str(x)!r}"
        )
    if x is None or isinstance(x, (numbers.Number, Set, ValuesView, deque)):
        raise ValueError(f"`x` must be a list of texts, prepared arrays, or a dataset. Received: x={x!r:.100}")
    if isinstance(x, Mapping):
        if not set(needed) <= set(x):
            raise ValueError(
                f"A dict must have the encoder's inputs {needed}. Pass raw texts as a list, and pairs of texts as a "
                f"tuple of two lists. Received: x with the keys {list(x)}"
            )
        names, columns = list(x), list(x.values())
    elif isinstance(x, (list, tuple)) or hasattr(x, "shape"):
        if isinstance(x, (list, tuple)):
            _check_values(x, needed)
        elif len(x.shape) == 1 and len(needed) > 1:
            raise ValueError(
                f"Texts must be strings. Prepared arrays must be a dict of the encoder's inputs {needed}. "
                f"Received: {getattr(x, 'dtype', 'values')} of shape {tuple(x.shape)}"
            )
        columns = keras.tree.flatten(x)
    else:
        return None
    arrays = {name: to_numpy(column) for name, column in zip(names, columns)}
    if not arrays or len(columns) != len(names) or any(array.ndim == 0 for array in arrays.values()):
        raise ValueError(
            f"`x` must be raw data, a dataset, or an array for each of the inputs {names}. "
            f"Received: {type(x).__name__} of {len(columns)} values"
        )
    check_ids(task.encoder, arrays)
    return arrays


def _check_values(values, names):
    """Raises a `ValueError` if a value of a list is neither a text nor an array."""
    for position, value in enumerate(values):
        if isinstance(value, Mapping):
            advice = f"Pass a list of the texts, such as `[row[{first_text(value)!r}] for row in rows]`"
        elif isinstance(value, os.PathLike):
            advice = "Read the files first, such as with `[path.read_text() for path in paths]`"
        elif value is None or isinstance(value, numbers.Number):
            advice = f"Prepared arrays must be a dict of the encoder's inputs {names}"
        else:
            continue
        raise ValueError(f"Texts must be strings. {advice}. Received: {value!r:.100} at position {position}")


def check_columns(x, y, sample_weight=None):
    """Checks that texts, labels and sample weights in memory match. Logs a warning if their indices differ."""
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(values, (set, frozenset, Iterator)):
            raise ValueError(
                f"`{name}` must be a list, an array or a table column with one value for each row, in the same order. "
                f"Received: {name} of type {type(values).__name__}"
            )
    if y is not None and is_text(x) and not isinstance(x, tuple) and _is_same_column(x, y):
        raise ValueError(
            "The texts and the labels must be different columns. "
            f"Received: the same {type(x).__name__} as x and y, {list(x[:2])!r:.100}"
        )
    values = {"x": x[0] if isinstance(x, tuple) and x else x, "y": y, "sample_weight": sample_weight}
    if isinstance(x, tuple) and len(x) == 2:
        values["the second texts"] = x[1]
    # Columns and tables of pandas have an index.
    indices = {name: value.index for name, value in values.items() if hasattr(getattr(value, "index", None), "equals")}
    first, *others = indices.items() or [None]
    for name, index in others:
        if len(index) == len(first[1]) and not index.equals(first[1]):
            log.warning(
                "The indices of %s and %s differ. Rows are matched by their position, not by their index. Sort both in "
                "the same way, or pass columns of one table.",
                first[0],
                name,
            )


def _is_same_column(x, y):
    """Returns whether labels are the texts: the same object, or the same column of a table."""
    if x is y:
        return not isinstance(x, (str, bytes))
    named = getattr(x, "name", None) is not None and getattr(x, "name", None) == getattr(y, "name", None)
    return named and hasattr(x, "equals") and type(x) is type(y) and bool(x.equals(y))


def count_rows(columns):
    """Returns the number of rows of columns: a list or array, a tuple of them, or a dict of arrays."""
    if isinstance(columns, dict):
        columns = tuple(columns.values())
    return len(columns[0] if isinstance(columns, tuple) and columns else columns)


def take_rows(values, rows):
    """Returns some rows of what `_columns_of` returns, of a column, of a dict of columns, or of None."""
    if isinstance(values, dict):
        return {name: take_rows(column, rows) for name, column in values.items()}
    if isinstance(values, tuple):
        return tuple(take_rows(column, rows) for column in values)
    if isinstance(values, list):
        return values[rows] if isinstance(rows, slice) else [values[row] for row in rows.tolist()]
    return values if values is None else np.asarray(values)[rows]


def _in_memory(task, method, rows, batch_size, shuffle, class_weight=None, seed=None):
    """Returns `Rows` as `Batches` with the targets of the task, or as `NoRows`."""
    columns, y = rows.columns, rows.labels
    if count_rows(columns) == 0:
        return NoRows(columns)
    in_tokens = False
    if batch_size is None:
        replicas, _ = replicas_of(task)
        batch_size = -(-32 // replicas) * replicas
        in_tokens = method == "predict" and replicas == 1 and _prefers_few_tokens(task)
    options = {"sample_weight": rows.weights, "batch_size": batch_size, "shuffle": shuffle}
    if isinstance(columns, dict):
        data = _batch_arrays(task, columns, y, **options)
    else:
        has_weights = y is None and rows.weights is not None
        rule = "A task that makes its targets of texts has no weights of rows. Leave `sample_weight` out."
        makes_targets = isinstance(task.labels, TokenTargets) and task.labels.optional
        expect(not has_weights or not makes_targets, rule, sample_weight=rows.weights)
        # The preprocessor may have changed since the task was created.
        check_sizes(task.preprocessor, task.encoder, getattr(task.encoder, "vocabulary_size", None))
        data = task.reader.batches(columns, y, **options)
    if seed is not None:
        data.seed = seed
    if in_tokens and "padding_mask" in data.inputs and not data.contents.layout.in_parts:
        # Other encoders keep 32 rows: recurrent ones take as long for a step of one row as of many.
        batch_size = MIN_ROWS if isinstance(task.encoder, TransformerStack) else batch_size
        data = data.replace(tokens=TOKENS, batch_size=batch_size)
    return _complete(task, method, data, class_weight)


def _prefers_few_tokens(task):
    """Returns whether batches of few tokens take less time: on CPUs, unless XLA would compile each number of rows."""
    on_cpu = keras.backend.backend() != "torch" or device_of_torch()[0] == "cpu"
    return on_cpu and not task.jit_compile and not compiles_each_length()


def _batch_arrays(task, columns, y, sample_weight, batch_size, shuffle):
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
    if isinstance(sample_weight, Mapping):
        sample_weight = {name: check_weights(to_numpy(part)) for name, part in sample_weight.items()}
    elif sample_weight is not None:
        sample_weight = check_weights(to_numpy(sample_weight))
    given = sorted({**columns, **_by_head("y", y), **_by_head("sample_weight", sample_weight)}.items())
    rows = {name: column.shape[0] if column.ndim else None for name, column in given if column is not None}
    rule = "Inputs, labels and sample weights must have the same number of rows."
    expect(len(set(rows.values())) == 1, rule, rows=rows)
    check_rows_of_batches(batch_size)
    sizes = [column.shape[1] for column in columns.values() if column.ndim > 1]
    length = max([*sizes, *columns["padding_mask"].shape[-1:]] if "padding_mask" in columns else sizes, default=1)
    ranks = {tensor.name: len(tensor.shape) for tensor in task.inputs}
    in_parts = any(column.ndim > ranks.get(name, column.ndim) for name, column in columns.items())
    options = {"batch_size": batch_size, "shuffle": shuffle, "lengths": [length]}
    return Batches.of(columns, y, sample_weight, Contents(Layout("parts" if in_parts else None)), **options)


def _by_head(name, values):
    """Returns labels or weights of rows by their name in errors, those of several heads one by one."""
    return {f"{name}[{head!r}]": part for head, part in values.items()} if isinstance(values, dict) else {name: values}


def _complete(task, method, data, class_weight=None):
    """Returns `Batches` with the targets of the task, and with weights for each target."""
    labels = task.labels
    if data.contents.prepare is None:
        labels.check_inputs(data.inputs, data.labels)
    if method.startswith("predict"):
        return data
    data = labels.targets(data, task)
    if labels.places is not None:
        data = _with_weights_of_all_places(data)
    if class_weight is None or not data.has_labels:
        return data
    class_weight = labels.class_weight(class_weight, data.labels)
    return data.replace(
        sample_weight=_times_class_weights(data.sample_weight, data.labels, class_weight, labels.places is not None)
    )


def _with_weights_of_all_places(data):
    """Returns prepared batches whose weights of rows are those of all places of their labels [rows, places]."""
    weights, shape = data.sample_weight, np.shape(data.labels)
    if data.contents.prepare or np.ndim(weights) != 1 or len(shape) != 2:
        return data
    return data.replace(sample_weight=np.broadcast_to(np.asarray(weights)[:, None], shape))


def _times_class_weights(sample_weight, labels, class_weight, of_places=False):
    """Returns sample weights multiplied by the weights of the classes, which Keras does not accept together.

    Args:
        labels: Array of integers `[rows]`, or of one-hot labels `[rows, classes]`.
        of_places: Boolean. Whether labels are integers `[rows, places]`, negative at unused places. Defaults to
            `False`.
    """
    labels, table = np.asarray(labels), np.array([class_weight[i] for i in range(len(class_weight))], "float32")
    if not of_places:
        labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)
    weights = table[np.maximum(labels, 0).astype(int)]
    if sample_weight is None:
        return weights
    sample_weight = np.asarray(sample_weight, "float32")
    axes = max(sample_weight.ndim, weights.ndim)
    weights, sample_weight = (each.reshape(*each.shape, *[1] * (axes - each.ndim)) for each in (weights, sample_weight))
    return weights * sample_weight


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
    length, seed = length_of_all(task, x), None
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

    return Stream(x, prepare, epoch=epochs_trained(task), one_epoch=fixed, is_static=length is not None)


def _batch(task, method, loader, batch, class_weight, seed, length=None):
    """Returns a batch of a loader as `Batches` with one batch, whose texts are padded to a length, if there is one."""
    x, y, sample_weight = parts_of_batch(task, batch, is_tf_dataset(loader))
    raw = task.reader.accepts(x)
    task.reader.check(x, method)
    if method == "predict":
        y = sample_weight = None
        rule = (
            f"`predict` of a `{type(task).__name__}` requires raw data in memory, or prepared inputs. Pass all rows at "
            "once, or call the method for each batch."
        )
        if raw:
            expect(type(task.reader).restore is Reader.restore, rule, x=x)
    rows = _rows_of(task, method, x, y, sample_weight, in_batches=True)
    data = _in_memory(task, method, rows, ALL_ROWS, False, class_weight, seed)
    expect(not isinstance(data, NoRows), "Each batch must have at least one row.", x=x)
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


def _padded(data, length):
    """Returns batches of texts that are padded to a length."""
    inputs = {name: fit_to(column, length, 1 + data.contents.layout.in_parts) for name, column in data.inputs.items()}
    data = data.replace(lengths=(length,), inputs=inputs)
    if not data.contents.per_token or data.labels is None:
        return data
    weights = None if data.sample_weight is None else fit_to(data.sample_weight, length)
    return data.replace(labels=fit_to(data.labels + 1, length) - 1, sample_weight=weights)  # Padding is UNUSED.


# === Methods ===


def source_of(task, method, x, y=None, sample_weight=None, batch_size=None, shuffle=False, class_weight=None):
    """Returns the user's data as a `Source` for `fit`, `evaluate` or `predict` on the model's replicas."""
    check_distribution(task)
    data = read_data(task, method, x, y, sample_weight, batch_size, shuffle, class_weight)
    if method != "predict":
        expect(not data.is_empty, "`x` must have at least one row.", rows=0)
        needed = "labels" if data.in_memory else "a dataset of `(inputs, labels)`"
        expect(data.has_labels, f"`{method}` requires {needed}.", y=None)
        _prepare_metrics(task, data)
    if data.is_empty or not data.in_memory:
        return data
    if method == "evaluate":
        data = data.apart(one_epoch=True)
    elif not isinstance(x, Batches) and data.contents.seed is not None:
        data.epoch = epochs_trained(task)
    return share(task, data, method)


def epochs_trained(task):
    """Returns in how many epochs a task was trained, so that another `fit` with the same seed draws other targets."""
    return sum(record.epochs for record in task.fits)


def divided(task, x, y, sample_weight, fraction):
    """Returns data in memory as `Rows` to train on, and `Rows` to validate on, the last rows."""
    task.reader.check(x, "fit")
    rows = None if is_loader(x) else _rows_of(task, "fit", x, y, sample_weight)
    rule = "`validation_split` requires data in memory. Pass `validation_data` for a dataset."
    expect(rows is not None, rule, validation_split=fraction, x=x)
    expect(y is not None or task.labels.optional, "`validation_split` requires labels.", y=None)
    first, last = rows.split_last(fraction)
    _warn_of_untrained(task, first.labels, last.labels)
    return first, last


def validation_of(task, data, batch_size):
    """Returns `validation_data`, in any form that `fit` accepts, in the form that `evaluate` needs."""
    return source_of(task, "evaluate", *parts_of(task, data), batch_size=batch_size)


def parts_of(task, data, name="validation_data"):
    """Returns data in one value as a tuple `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Tasks that make their targets also accept raw data without labels: texts, or a tuple of columns of texts.
    """
    if task.labels.optional and task.reader.accepts(data) and not isinstance(data, tuple):
        return (data,)
    if (
        task.labels.optional
        and isinstance(data, tuple)
        and (task.reader.takes_pairs or len(data) == 1)
        and all(is_text(part) and not isinstance(part, (str, bytes, tuple)) for part in data)
    ):
        return data if len(data) == 1 else (data,)
    if not isinstance(data, (list, tuple)):
        parts, alone = (data,), task.reader.accepts(data)
    else:
        parts, alone = data, len(data) not in (2, 3) or any(isinstance(part, (str, bytes)) for part in data)
    if alone:
        raise ValueError(
            f"`{name}` must be a dataset, or a tuple `(x, y)` or `(x, y, sample_weight)`. "
            f"Received: {type(data).__name__} of {len(data)} values without labels"
        )
    return parts


def _warn_of_untrained(task, labels, held_out):
    """Logs a warning if classes occur in the last rows only, as in a file that is sorted by its labels."""
    if task.label_names is None or task.labels.places is not None or labels is None or np.ndim(labels) != 1:
        return
    if missing := {int(label) for label in held_out} - {int(label) for label in labels}:
        log.warning(
            "`validation_split` holds out the last rows, and the classes %s occur only there, so nothing is trained on "
            "them. Shuffle the rows, or pass `validation_data` from `datasets.hold_out`, which divides each class.",
            listed([task.label_names[label] for label in sorted(missing)]),
        )


def batch_of(task, method, x, y, sample_weight, class_weight=None):
    """Returns `(x, y, sample_weight)` with prepared inputs, for a method that accepts one batch, and its kind."""
    require_compiled(task, method)
    data = read_data(task, method, x, y, sample_weight, ALL_ROWS, False, class_weight)
    if not data.in_memory or not data.has_labels:
        received = type(x).__name__ if not data.in_memory else "no rows" if data.is_empty else "y=None"
        raise ValueError(f"A batch must have at least one row, and labels. Received: {received}")
    kind = kind_of(task, data)
    if method == "test_on_batch":
        check_kind(task, kind, task.fitted_on)
        data = data.replace(one_epoch=True)
    elif data.contents.seed is not None:  # The same seed draws other targets in each step.
        data.epoch = optimizers.batch_count(task.optimizer)
    inputs, labels, *weights = data[0]
    return (inputs, labels, weights[0] if weights else None), kind


def _prepare_metrics(task, data):
    """Creates the metrics that `compile` received by name.

    A run that is resumed within an epoch restores the metrics before it sees a batch, including the metrics of targets
    that the task makes.
    """
    if keras.backend.backend() == "tensorflow":
        if (spec := data.spec) is not None:
            build_metrics(task, spec[1])
    elif data.is_read_once:
        build_for_step(task, data.first[0])  # Otherwise, Keras takes the first batch for this.
