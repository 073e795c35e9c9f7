"""Checks of labels that are classes, and of class weights."""

import math
import numbers
from collections.abc import Mapping

import numpy as np

from keras_transfer.core.arrays import to_array
from keras_transfer.core.names import advice_on_label


def check_class_labels(labels, count, vectors=None, hint=""):
    """Raises a `ValueError` if labels are not valid for a classifier. Floats with integer values count as integers.

    Args:
        vectors: Boolean. Whether the loss expects labels `[texts, classes]`. `None` allows both forms.
        hint: String. Advice about rows with several labels, as a sentence of the error message.
    """
    expected = f"Labels must be integers from 0 to {count - 1}"
    values = _as_numbers(labels, f"{expected}, one for each text", hint)
    shape = f"{values.dtype} of shape {values.shape}"
    if not values.size or (vectors is not False and values.ndim == 2 and values.shape[1] == count):
        return  # The number of labels is checked together with the number of texts.
    if vectors:
        raise ValueError(
            f"The loss expects labels of shape [texts, {count}], as `keras.utils.to_categorical` returns. For "
            f"integers, use `loss='auto'`. Received: {shape}"
        )
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        one_hot = values.ndim == 2 and (values.sum(axis=1) == 1).all()
        raise ValueError(f"{expected}, one for each text.{'' if one_hot else hint} Received: {shape}")
    with np.errstate(invalid="ignore"):
        [*wrong] = np.flatnonzero((values < 0) | (values >= count) | (values % 1 != 0))
    if wrong:
        value = values[wrong[0]]
        advice = advice_on_label(value) if value % 1 else ""
        raise ValueError(f"{expected}.{advice} Received: {value} at position {wrong[0]}")


def check_multi_hot(labels, count):
    """Raises a `ValueError` if labels are not an array `[texts, count]` of numbers from 0 to 1."""
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


def check_weights_of_classes(weights, count):
    """Raises a `ValueError` if `class_weight` is not a dict from classes to weights."""
    known = isinstance(weights, Mapping) and all(
        isinstance(key, numbers.Integral) and 0 <= key < count and _is_weight(weight) for key, weight in weights.items()
    )
    if not known:
        raise ValueError(
            f"`class_weight` must be a dict from classes, integers from 0 to {count - 1}, to finite weights of at "
            "least 0. Names in `label_names` and 'balanced' are accepted, too. "
            f"Received: class_weight={weights!r}"
        )


def _is_weight(weight):
    return isinstance(weight, numbers.Real) and math.isfinite(weight) and weight >= 0
