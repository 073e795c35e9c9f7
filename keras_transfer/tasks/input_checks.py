"""Checks of `x`, which must be raw data of a task, arrays of its inputs, or a dataset of these."""

import logging
import numbers
import os
import types
from collections import deque
from collections.abc import Iterator, Mapping, Set, ValuesView

import keras

from keras_transfer.core.arrays import check_weights, to_array, whole_column
from keras_transfer.data import Batches
from keras_transfer.tasks.columns import check_rows, input_names
from keras_transfer.tasks.streams import is_stream, texts_of_stream
from keras_transfer.text import is_text

log = logging.getLogger("keras_transfer")
_NAMES = {"texts": "single texts", "pairs": "pairs of texts"}

_ADVICE = {
    "texts": "Pass texts as a list; a tuple of two is one pair",
    "pairs": "Pass a tuple of two columns, `(texts, other_texts)`",
}


def check_inputs(task, x, made=()):
    """Raises a `ValueError` if `x` is a dict without the encoder's inputs, an iterator, or a stream of invalid shapes.

    Inputs whose names are in `made` may be missing, because the task makes them.
    """
    names = [name for name in input_names(task) if name not in made]
    _check_texts(task, x, names)
    if isinstance(x, Mapping):
        if not set(names) <= set(x):
            raise ValueError(
                f"A dict must have the encoder's inputs {names}. Pass raw texts as a list, and pairs of texts as a "
                f"tuple of two lists. Received: x with the keys {list(x)}"
            )
    elif isinstance(x, Iterator) and not isinstance(x, types.GeneratorType):
        raise ValueError(
            "`x` must not be an iterator, such as `zip(...)`. Pass texts as a list, pairs of texts as a tuple of two "
            f"lists, and labels as `y`. Received: x of type {type(x).__name__}"
        )
    elif is_stream(x) and any((text.shape.rank or 0) > 1 for text in texts_of_stream(x)):
        raise ValueError(
            "Texts in a `tf.data.Dataset` must have the shape [batch]. Remove the last axis, such as with "
            f"`dataset.map(lambda x, y: (tf.squeeze(x, -1), y))`. Received: {x.element_spec}"
        )


def _check_texts(task, x, names):
    """Raises a `ValueError` if `x` is neither raw data of a task, nor arrays of its inputs, nor a dataset of these.

    Dicts are not checked. The names are those of the inputs that prepared data must have.
    """
    x = whole_column(x)
    if isinstance(x, os.PathLike):
        raise ValueError(
            "`x` must be texts and not a file. Read it first, such as with `keras_transfer.datasets.read_table(path, "
            f"text_column, label_column)`. Received: x={str(x)!r}"
        )
    if is_stream(x):
        _check_stream(x, names)
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


def _check_stream(dataset, names):
    """Raises a `ValueError` if a `tf.data.Dataset` has dicts of columns other than the encoder's inputs.

    It also raises the error if columns, labels or weights differ in their numbers of rows, as far as these are known.
    """
    spec = dataset.element_spec
    parts = dict(zip(("x", "y", "sample_weight"), spec if isinstance(spec, tuple) else (spec,)))
    named = {".".join(map(str, path)): getattr(each, "shape", ()) for path, each in keras.tree.flatten_with_path(parts)}
    check_rows({name: shape[0] for name, shape in named.items() if getattr(shape, "rank", None) and shape[0]})
    columns = spec[0] if isinstance(spec, tuple) and spec else spec
    if not isinstance(columns, Mapping) or set(names) <= set(columns):
        return
    text = _first_text({name: "" for name, each in columns.items() if getattr(each, "dtype", None) == "string"})
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
    first, *others = [(name, index) for name, value in values.items() if (index := _index_of(value)) is not None] or [0]
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


def _index_of(values):
    """Returns the index of a pandas column or table, or None."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "__len__") else None


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


def kind_of(task, x):
    """Returns the kind of the texts in `x`: `"texts"`, `"pairs"`, or `None` if it is unknown or makes no difference."""
    if not task.reader.takes_either:
        return None
    if isinstance(x, Batches):
        return x.contents.kind if x.contents.kind in _NAMES else None
    if is_stream(x):
        return {1: "texts", 2: "pairs"}.get(len(texts_of_stream(x)))
    if not task.reader.accepts(x):
        return None
    return "pairs" if isinstance(x, tuple) else "texts"


def check_kind(task, x, expected):
    """Raises a `ValueError` if `x` has single texts and the task was trained on pairs, or vice versa."""
    kind = None if expected is None else kind_of(task, x)
    if kind not in (None, expected):
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
    contents = data.contents if isinstance(data, Batches) and data.has_labels else None
    if contents is not None and contents.kind == "pairs" and contents.prepare is None:
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


def checked_batches(task, data, method):
    """Makes a generator or `tf.data.Dataset` check the labels, prepared inputs and sample weights of each batch.

    Other data is returned unchanged. Labels are not checked for `"predict"`.
    """

    def check(labels, inputs):
        try:
            task.labels.check(labels, task.loss)
        except ValueError as error:
            raise _kept(task, f"Invalid labels in a batch of the dataset. {error}") from None
        try:
            task.labels.check_inputs(inputs if isinstance(inputs, dict) else {}, labels)
        except ValueError as error:
            raise _kept(task, f"Invalid inputs in a batch of the dataset. {error}") from None

    def check_weight(weights):
        try:
            for part in keras.tree.flatten(weights):
                check_weights(to_array(part))
        except ValueError as error:
            raise _kept(task, f"Invalid sample weights in a batch of the dataset. {error}") from None

    if isinstance(data, types.GeneratorType):
        unchecked = (lambda *values: None,) * 2
        return _checked_generator(data, *(unchecked if method == "predict" else (check, check_weight)))
    if is_stream(data) and hasattr(data, "map") and method != "predict":
        return _with_checked_labels(data, check, check_weight, bool(task.labels.made_inputs))
    return data


def _kept(task, message):
    """Returns an error that the task keeps, because TensorFlow reports errors in its functions without their types."""
    task.kept_error = ValueError(message)
    return task.kept_error


def _checked_generator(generator, check, check_weight):
    for batch in generator:
        inputs, labels, weights = (
            (*batch, None, None)[:3] if isinstance(batch, tuple) and batch else (batch, None, None)
        )
        if is_text(inputs):
            raise ValueError(
                "A generator must yield batches of prepared inputs and labels, `(inputs, labels)`. Pass raw texts as a "
                f"list: `fit(list(texts), labels)`. Received: a generator that yields {inputs!r:.100}"
            )
        if labels is not None:
            check(labels, inputs)
        if weights is not None:
            check_weight(weights)
        yield batch


def _with_checked_labels(dataset, check, check_weights, with_inputs):
    """Returns a `tf.data.Dataset` with the same batches that first calls functions on their labels and weights.

    This works on every backend, even if the labels are used in a compiled step, which cannot raise errors. Other
    datasets, and those whose labels are not dense tensors, are returned unchanged, and weights that are none are not
    checked.

    Args:
        check: Function of labels, a NumPy array or a dict of arrays, and of a dict of inputs or `None`.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not _is_dense(spec[1], tf.TensorSpec):
        return dataset

    def after(check, values, *others):
        parts = tf.nest.flatten(values)

        def run(*arrays):
            check(*tf.nest.pack_sequence_as((values, *others), arrays))
            return arrays[: len(parts)]

        same = tf.numpy_function(run, tf.nest.flatten((values, *others)), [part.dtype for part in parts])
        for part, before in zip(same, parts):
            part.set_shape(before.shape)
        return tf.nest.pack_sequence_as(values, same)

    def checked(inputs, labels, *weights):
        weights = [after(check_weights, each) if _is_dense(each, tf.Tensor) else each for each in weights]
        seen = inputs if with_inputs and isinstance(inputs, dict) and _is_dense(inputs, tf.Tensor) else {}
        return inputs, after(check, labels, seen), *weights

    return dataset.map(checked)


def _is_dense(values, kind):
    return isinstance(values, kind) or (
        isinstance(values, dict) and bool(values) and all(isinstance(value, kind) for value in values.values())
    )
