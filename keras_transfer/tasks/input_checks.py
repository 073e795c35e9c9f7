"""Checks of `x`, which must be raw data of a task, arrays of its inputs, or a dataset of these."""

import logging
import numbers
import os
from collections import deque
from collections.abc import Iterator, Mapping, Set, ValuesView

import keras

from keras_transfer.core.arrays import whole_column
from keras_transfer.text import is_text

log = logging.getLogger("keras_transfer")
_NAMES = {"texts": "single texts", "pairs": "pairs of texts"}

_ADVICE = {
    "texts": "Pass texts as a list; a tuple of two is one pair",
    "pairs": "Pass a tuple of two columns, `(texts, other_texts)`",
}


def check_inputs(task, x, made=()):
    """Raises a `ValueError` if `x` is a dict without the encoder's inputs, an iterator, or no data at all.

    Inputs whose names are in `made` may be missing, because the task makes them.
    """
    names = [name for name in input_names(task) if name not in made]
    x = whole_column(x)
    if isinstance(x, Mapping):
        if not set(names) <= set(x):
            raise ValueError(
                f"A dict must have the encoder's inputs {names}. Pass raw texts as a list, and pairs of texts as a "
                f"tuple of two lists. Received: x with the keys {list(x)}"
            )
    elif isinstance(x, Iterator):
        raise ValueError(
            "`x` must not be an iterator, such as `zip(...)`. Pass texts as a list, pairs of texts as a tuple of two "
            f"lists, and labels as `y`. Received: x of type {type(x).__name__}"
        )
    elif isinstance(x, os.PathLike):
        raise ValueError(
            "`x` must be texts and not a file. Read it first, such as with `keras_transfer.datasets.read_table(path, "
            f"text_column, label_column)`. Received: x={str(x)!r}"
        )
    elif x is None or isinstance(x, (numbers.Number, Set, ValuesView, deque)):
        raise ValueError(f"`x` must be a list of texts, prepared arrays, or a dataset. Received: x={x!r:.100}")
    elif isinstance(x, (list, tuple)):
        if not task.reader.accepts(x):
            _check_values(x, names)
    elif len(getattr(x, "shape", ())) == 1 and not task.reader.accepts(x) and len(names) > 1:
        raise ValueError(
            f"Texts must be strings. Prepared arrays must be a dict of the encoder's inputs {names}. "
            f"Received: {getattr(x, 'dtype', 'values')} of shape {tuple(x.shape)}"
        )


def _check_values(values, names):
    """Raises a `ValueError` if a value of a list is neither a text nor an array."""
    for position, value in enumerate(values):
        if isinstance(value, Mapping):
            advice = f"Pass a list of the texts, such as `[row[{_first_text(value)!r}] for row in rows]`"
        elif isinstance(value, os.PathLike):
            advice = "Read the files first, such as with `[path.read_text() for path in paths]`"
        elif value is None or isinstance(value, numbers.Number):
            advice = f"Prepared arrays must be a dict of the encoder's inputs {names}"
        else:
            continue
        raise ValueError(f"Texts must be strings. {advice}. Received: {value!r:.100} at position {position}")


def input_names(task):
    """Returns the names of a functional model's inputs, in their order."""
    return list(task.input) if isinstance(task.input, dict) else [tensor.name for tensor in task.inputs]


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
    text = _first_text({name: "" for name, each in columns.items() if getattr(each, "dtype", None) == "string"})
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


def _first_text(row):
    """Returns the name of the first column of texts, or "text"."""
    return next((name for name, value in row.items() if isinstance(value, (str, bytes))), "text")


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


def validation_parts(task, data):
    """Returns `validation_data` as a tuple `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Tasks that make their targets also accept raw data without labels: texts, or a tuple of columns of texts.
    """
    if task.labels.optional and task.reader.accepts(data) and not isinstance(data, tuple):
        return (data,)
    if (
        task.labels.optional
        and isinstance(data, tuple)
        and (task.reader.takes_pairs or len(data) == 1)
        and all(_is_column(part) for part in data)
    ):
        return data if len(data) == 1 else (data,)
    if not isinstance(data, (list, tuple)):
        parts, alone = (data,), task.reader.accepts(data)
    else:
        parts, alone = data, len(data) not in (2, 3) or any(isinstance(part, (str, bytes)) for part in data)
    if alone:
        raise ValueError(
            "`validation_data` must be a dataset, or a tuple `(x, y)` or `(x, y, sample_weight)`. "
            f"Received: {type(data).__name__} of {len(data)} values without labels"
        )
    return parts


def _is_column(values):
    return is_text(values) and not isinstance(values, (str, bytes, tuple))


class NoRows(keras.utils.PyDataset):
    """The dataset for data without rows.

    Keras and its kernels fail on empty batches, so `predict` returns a result without running the model.
    """

    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return 0


def no_outputs(task, columns):
    """Returns what `predict` returns for data without rows, arrays [0, ...] in the structure of the model's outputs.

    Columns of shape [0, length] determine the length of the outputs.
    """
    shapes = [column.shape for column in columns.values()] if isinstance(columns, dict) else []
    length = next((shape[1] for shape in shapes if len(shape) > 1), 0)

    def empty(output):
        shape = (0, *(length if size is None else size for size in output.shape[1:]))
        return keras.ops.convert_to_numpy(keras.ops.zeros(shape, output.dtype))

    return keras.tree.map_structure(empty, task.output)


def kind_of(task, data):
    """Returns the kind of `Batches` or a `Stream`, `"texts"` or `"pairs"`, or `None` if it makes no difference."""
    kind = getattr(getattr(data, "contents", None), "kind", None)
    return kind if kind in _NAMES and task.reader.takes_either else None


def check_kind(task, kind, expected):
    """Raises a `ValueError` if a task that was trained on one kind of texts would be used for the other."""
    if task.reader.takes_either and None not in (kind, expected) and kind != expected:
        raise ValueError(
            f"The model is trained on {_NAMES[expected]}. {_ADVICE[expected]}. Set `model.fitted_on = None` to use it "
            f"for {_NAMES[kind]} anyway. Received: {_NAMES[kind]}"
        )


def check_export(task, pairs):
    """Raises a `ValueError` if a task trained on single texts would be exported for pairs, or vice versa."""
    if task.reader.takes_either and task.fitted_on is not None and pairs != (task.fitted_on == "pairs"):
        raise ValueError(
            f"The model is trained on {_NAMES[task.fitted_on]}. Use `pairs={not pairs}`, or set "
            f"`model.fitted_on = None`. Received: pairs={pairs}"
        )


def check_no_pairs(data, task_name):
    """Raises a `ValueError` if batches have labels of segment pairs, for a task that makes its own targets."""
    if data.has_labels and data.contents.kind == "pairs" and data.contents.prepare is None:
        raise ValueError(
            f"A `{task_name}` has no head for pairs of segments. Use `tasks.BertPretraining`, or pass "
            "`corpus.blocks(...)`. Received: rows with labels of pairs"
        )


def check_no_windows(data, task):
    """Raises a `ValueError` if batches are windows of long texts, for a task that carries no state between them."""
    if hasattr(data, "num_streams") and not (hasattr(task, "streams") and hasattr(task.encoder, "empty_state")):
        raise ValueError(
            f"A `{type(task).__name__}` with a `{type(task.encoder).__name__}` expects independent rows of text. Only "
            "recurrent language models accept windows that continue each other. Pass `corpus.blocks(...)`. "
            f"Received: windows of {data.num_streams} streams"
        )
