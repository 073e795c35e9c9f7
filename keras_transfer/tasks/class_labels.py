"""Labels that are classes: one for each text, or any number of them."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import expect_each, to_array
from keras_transfer.core.expect import expect, number
from keras_transfer.core.names import advice_on_label
from keras_transfer.data import (
    are_empty,
    check_not_positions,
    checked_names,
    has_names,
    in_order_of_names,
    keys_as_positions,
    multi_hot,
    positions_of,
    positions_of_numbers,
)
from keras_transfer.metrics import AUC, ExpectedCalibrationError, F1Score, MatthewsCorrelation, Precision, Recall
from keras_transfer.tasks.keras_losses import NAMED_LOSSES, takes_vectors
from keras_transfer.tasks.labels import Labels, RowLabels, as_numbers, flat_labels

_UNNAMED = " With `num_classes`, the names of classes are their numbers. Pass `label_names=[...]` instead."
_SEVERAL = " For several labels per text, create the classifier with `multi_label=True`."
_NAMED = " Convert names with `model.labels.encode(labels)`."
_NAMED_METRICS = {"f1": F1Score, "precision": Precision, "recall": Recall, "auc": AUC}


class ClassNames(RowLabels):
    """One class for each text: its name, or its position in the list of names.

    Args:
        names: List of strings, at least 2. Names of the classes, in the order of the logits.

    Example:
    ```python
    labels = keras_transfer.tasks.ClassNames(["bad", "good"])
    labels.encode(["good", "bad"])  # [1, 0]
    labels.decode(np.array([[0.1, 0.9]]))  # ["good"]
    ```
    """

    named_losses = NAMED_LOSSES
    named_metrics = {
        **_NAMED_METRICS,
        "matthews_correlation": MatthewsCorrelation,
        "expected_calibration_error": ExpectedCalibrationError,
    }

    def __init__(self, names):
        self.names = checked_names(names)

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def encode(self, labels):
        labels = in_order_of_names(labels, self.names)
        if has_names(labels):
            return positions_of(labels, self.names, _UNNAMED)
        return flat_labels(positions_of_numbers(labels, self.names))

    def check(self, labels, loss=None):
        check_class_labels(labels, len(self.names), takes_vectors(loss), _SEVERAL)

    def class_weight(self, weights, labels=None):
        if isinstance(weights, str) and weights == "balanced" and labels is not None:
            labels = positions_of(labels, self.names) if has_names(labels) else labels
            self.check(labels)
            labels = to_array(labels)
            labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)
        return weights_of_classes(weights, self.names, labels)

    def probabilities(self, logits):
        """Returns the probabilities of the classes.

        Args:
            logits: Tensor `[..., classes]`.

        Returns:
            Tensor like `logits`.
        """
        return ops.softmax(logits)

    def response(self, outputs):
        return most_likely(outputs)

    def decode(self, outputs):
        """Returns the results of `predict` as names.

        Args:
            outputs: Array `[rows, classes]` of logits.

        Returns:
            List of strings.
        """
        return self.names_of(outputs)  # The highest logit has the highest probability.

    def names_of(self, probabilities):
        """Returns the name of the most likely class of each row.

        Args:
            probabilities: Array `[rows, classes]`.

        Returns:
            List of strings.
        """
        return [self.names[best] for best in probabilities.argmax(axis=-1)]


class MultiHot(Labels):
    """Any number of classes for each text: a list of their names, or an array of zeros and ones.

    Args:
        names: List of strings. Names of the classes, in the order of the logits.
        thresholds: List of floats, the lowest probability at which each class is predicted. Defaults to `None`, for
            0.5.

    Example:
    ```python
    labels = keras_transfer.tasks.MultiHot(["funny", "sad"])
    labels.encode([["sad"], []])  # [[0, 1], [0, 0]]
    ```
    """

    one_of = False
    problem_type = "multi_label_classification"
    named_losses = {
        "focal": lambda: keras.losses.BinaryFocalCrossentropy(from_logits=True),
        "label_smoothing": lambda: keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
    }
    named_metrics = _NAMED_METRICS

    def __init__(self, names, thresholds=None):
        self.names = checked_names(names)
        self.thresholds = thresholds or [0.5] * len(self.names)

    def loss(self):
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")]

    def encode(self, labels):
        labels = in_order_of_names(labels, self.names)
        if has_names(labels) or are_empty(labels):
            return multi_hot(labels, self.names, _UNNAMED)
        check_not_positions(labels, self.names)
        return labels

    def check(self, labels, loss=None):
        check_multi_hot(labels, len(self.names))

    def probabilities(self, logits):
        """Returns the probability of each class.

        Args:
            logits: Tensor `[..., classes]`.

        Returns:
            Tensor like `logits`.
        """
        return ops.sigmoid(logits)

    def response(self, outputs):
        probabilities = ops.sigmoid(outputs)
        chosen = probabilities >= ops.convert_to_tensor(self.thresholds, probabilities.dtype)
        return {"chosen": ops.cast(chosen, "int32"), "probabilities": probabilities}

    def decode(self, outputs):
        """Returns the results of `predict` as lists of names.

        Args:
            outputs: Array `[rows, classes]` of logits.

        Returns:
            List of lists of strings.
        """
        return self.names_of(ops.convert_to_numpy(self.probabilities(outputs)))

    def names_of(self, probabilities):
        """Returns the names of all classes that reach their threshold, for each row.

        Args:
            probabilities: Array `[rows, classes]`.

        Returns:
            List of lists of strings.
        """
        chosen = probabilities >= np.array(self.thresholds, "float32")
        return [[name for name, is_chosen in zip(self.names, row) if is_chosen] for row in chosen]


def weights_of_classes(weights, names, labels=None):
    """Returns `class_weight` as a dict with the weight of each position in the list of names.

    Args:
        weights: Dict from names or positions to weights, others being 1, or `"balanced"`, so that all classes have the
            same total weight.
        labels: Array of integers, negative where there is none. `None` if they are not in memory.
    """
    if isinstance(weights, Mapping):
        weights = dict(zip(keys_as_positions(weights, names), weights.values()))
    elif isinstance(weights, str) and weights == "balanced":
        if labels is None:
            raise ValueError("`class_weight='balanced'` requires labels in memory. Received: a dataset")
        counts = np.bincount(labels[labels >= 0].astype(int), minlength=len(names)).tolist()
        # A class without labels has no weight to balance.
        weights = {i: sum(counts) / (len(counts) * count) if count else 1.0 for i, count in enumerate(counts)}
    rule = (
        f"`class_weight` must be a dict from classes, integers from 0 to {len(names) - 1}, to finite weights of at "
        "least 0. Names in `label_names` and 'balanced' are accepted, too."
    )
    classes, weight = range(len(names)), number(0)
    fits = isinstance(weights, Mapping) and all(key in classes and weight.is_met(weights[key]) for key in weights)
    expect(fits, rule, class_weight=weights)
    return {i: weights.get(i, 1.0) for i in range(len(names))}  # Keras requires each class that occurs.


def most_likely(logits):
    """Returns probabilities `[..., classes]` and the most likely class `[...]` as the response of an exported model."""
    probabilities = ops.softmax(logits)
    return {"label_id": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}


def check_class_labels(labels, count, vectors=None, hint=""):
    """Raises a `ValueError` if labels are not valid for a classifier. Floats with integer values count as integers.

    Args:
        vectors: Boolean. Whether the loss expects labels `[texts, classes]`. `None` allows both forms.
        hint: String. Advice about rows with several labels, as a sentence of the error message.
    """
    expected = f"Labels must be integers from 0 to {count - 1}"
    values = as_numbers(labels, f"{expected}, one for each text", hint, _NAMED)
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
        valid = (values >= 0) & (values < count) & (values % 1 == 0)
    expect_each(valid, f"{expected}.", values, lambda value: advice_on_label(value) if value % 1 else "")


def check_multi_hot(labels, count):
    """Raises a `ValueError` if labels are not an array `[texts, count]` of numbers from 0 to 1."""
    expected = (
        f"Labels of a classifier with `multi_label=True` must be lists of names, or numbers of shape [texts, {count}]"
    )
    values = as_numbers(labels, expected, named=_NAMED)
    if values.ndim and not len(values):
        return  # The number of labels is checked together with the number of texts.
    if values.ndim != 2 or values.shape[1] != count:
        raise ValueError(f"{expected}. Received: {values.dtype} of shape {values.shape}")
    with np.errstate(invalid="ignore"):
        expect_each((values >= 0) & (values <= 1), f"{expected}, each from 0 to 1.", values)
