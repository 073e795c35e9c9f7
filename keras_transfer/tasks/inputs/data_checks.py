"""Checks of the inputs, labels and weights that a task receives in `fit`, `evaluate` and `predict`."""

import logging
import math
import numbers
import types
from collections.abc import Iterator, Mapping

import keras
import numpy as np

from keras_transfer.batches import with_checked_labels
from keras_transfer.tasks.inputs.data import input_names, is_stream, texts_of_stream, to_array
from keras_transfer.tasks.inputs.input_checks import check_texts
from keras_transfer.text.base import check_weights, is_text

log = logging.getLogger("keras_transfer")


def check_columns(x, y, sample_weight=None):
    """Checks that texts, labels and sample weights in memory belong together. Logs a warning if their indices differ.

    Args:
        x: Texts or other inputs, as for `Task.dataset`.
        y: Labels, or None.
        sample_weight: Sample weights, or None.

    Raises:
        ValueError: If labels or weights have no order, or if the labels are the texts.
    """
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
                "The indices of %s and %s differ. Rows are matched by their place, not by their index. Sort both in "
                "the same way, or pass columns of one table.",
                first[0],
                name,
            )


def _is_same_column(x, y):
    """Returns whether labels are the column of the texts: the same object, or the same column of a table."""
    if x is y:
        return not isinstance(x, (str, bytes))
    named = getattr(x, "name", None) is not None and getattr(x, "name", None) == getattr(y, "name", None)
    return named and hasattr(x, "equals") and type(x) is type(y) and bool(x.equals(y))


def _index_of(values):
    """Returns the index of a pandas column or table, or None."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "__len__") else None


def check_inputs(task, x):
    """Raises a `ValueError` if `x` is a dict without the encoder's inputs, an iterator, or a stream of wrong shapes."""
    check_texts(task, x)
    names = input_names(task)
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


def check_weights_of_classes(weights, count):
    """Raises a `ValueError` if `class_weight` is not a dict from classes to weights.

    Args:
        weights: What was passed as `class_weight`.
        count: Integer. Number of classes.
    """
    known = isinstance(weights, Mapping) and all(
        isinstance(key, numbers.Integral) and 0 <= key < count and _is_weight(weight) for key, weight in weights.items()
    )
    if not known:
        raise ValueError(
            f"`class_weight` must be a dict from classes, integers from 0 to {count - 1}, to finite weights of at "
            "least 0. A `TextClassifier` also takes names in `label_names`, and 'balanced'. "
            f"Received: class_weight={weights!r}"
        )


def _is_weight(weight):
    return isinstance(weight, numbers.Real) and math.isfinite(weight) and weight >= 0


def check_class_labels(labels, count, vectors=None, hint=""):
    """Raises a `ValueError` if labels are not valid for a classifier.

    Args:
        labels: List or array of labels. Floats with whole values count as integers.
        count: Integer. Number of classes.
        vectors: Boolean. Whether the loss takes labels [texts, classes]. Defaults to `None`, which allows both.
        hint: String. What to do about rows with several labels, as a sentence of the error message. Defaults to `""`.
    """
    expected = f"Labels must be integers from 0 to {count - 1}"
    values = _as_numbers(labels, f"{expected}, one for each text", hint)
    shape = f"{values.dtype} of shape {values.shape}"
    if not values.size or (vectors is not False and values.ndim == 2 and values.shape[1] == count):
        return  # The number of labels is checked together with the number of texts.
    if vectors:
        raise ValueError(
            f"The loss takes labels of shape [texts, {count}], such as those of `keras.utils.to_categorical`. For "
            f"integers, use `loss='auto'`. Received: {shape}"
        )
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        one_hot = values.ndim == 2 and (values.sum(axis=1) == 1).all()
        raise ValueError(f"{expected}, one for each text.{'' if one_hot else hint} Received: {shape}")
    with np.errstate(invalid="ignore"):
        [*wrong] = np.flatnonzero((values < 0) | (values >= count) | (values % 1 != 0))
    if wrong:
        raise ValueError(f"{expected}. Received: {values[wrong[0]]} at position {wrong[0]}")


def check_multi_hot(labels, count):
    """Raises a `ValueError` if labels are not an array [texts, count] of numbers from 0 to 1."""
    expected = (
        f"Labels of a classifier with `multi_label=True` must be lists of names, or numbers of shape [texts, {count}]"
    )
    values = _as_numbers(labels, expected)
    if values.ndim and not len(values):
        return  # The number of labels is checked together with the number of texts.
    if values.ndim != 2 or values.shape[1] != count:
        raise ValueError(f"{expected}. Received: {values.dtype} of shape {values.shape}")
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(~((values >= 0) & (values <= 1)))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise ValueError(f"{expected}, each from 0 to 1. Received: {values[place]} at position {place}")


def _as_numbers(labels, expected, hint=""):
    try:
        values = to_array(labels)
    except ValueError as error:
        raise ValueError(f"{expected}.{hint} Received: rows of different lengths") from error
    if values.dtype.kind in "biuf":
        return values
    for index, label in enumerate(np.asarray(labels, object).ravel()):
        if not isinstance(label, numbers.Real):
            advice = " Convert names with `model.labels.encode(labels)`." if isinstance(label, str) else ""
            raise ValueError(f"{expected}.{advice} Received: {label!r:.100} at position {index}")
    raise ValueError(f"{expected}. Received: {values.dtype} of shape {values.shape}")


def validation_parts(task, data):
    """Returns `validation_data` as a tuple `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Tasks that make their targets also take raw data alone: texts, or a tuple of columns of texts.

    Raises:
        ValueError: If `data` are raw data without labels, and the task needs labels.
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


def checked_batches(task, data, method):
    """Makes a generator or `tf.data.Dataset` check each batch as it is read: its labels and its sample weights.

    Other data do not change.

    Args:
        task: `Task`.
        data: Dataset as `Task.dataset` returns it.
        method: String. `"fit"`, `"evaluate"` or `"predict"`. Labels are not checked for `"predict"`.
    """

    def check(labels):
        try:
            task.labels.check(labels, task.loss)
        except ValueError as error:
            raise _kept(task, f"Invalid labels in a batch of the dataset. {error}") from None

    def check_weight(weights):
        try:
            for part in keras.tree.flatten(weights):
                check_weights(to_array(part))
        except ValueError as error:
            raise _kept(task, f"Invalid sample weights in a batch of the dataset. {error}") from None

    if isinstance(data, types.GeneratorType):
        return _checked_generator(data, *((lambda values: None,) * 2 if method == "predict" else (check, check_weight)))
    if is_stream(data) and hasattr(data, "map") and method != "predict":
        return with_checked_labels(data, check, check_weight)
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
            check(labels)
        if weights is not None:
            check_weight(weights)
        yield batch
