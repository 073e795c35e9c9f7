"""Checks of `x`, which must be raw data of a task, arrays of its inputs, or a dataset of these."""

import numbers
import os
import types
from collections import deque
from collections.abc import Iterator, Mapping, Set, ValuesView

import keras

from keras_transfer.arrays import whole_column
from keras_transfer.tasks.inputs.columns import check_rows, input_names
from keras_transfer.tasks.inputs.streams import is_stream, texts_of_stream


def check_inputs(task, x, made=()):
    """Raises a `ValueError` if `x` is a dict without the encoder's inputs, an iterator, or a stream of invalid shapes.

    Args:
        task: `Task`.
        x: What was passed as `x`.
        made: Names of inputs that the task makes if they are missing. Defaults to none.
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

    Args:
        task: `Task`.
        x: What was passed as `x`. Dicts are not checked.
        names: List of strings. The required inputs of prepared data.
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
