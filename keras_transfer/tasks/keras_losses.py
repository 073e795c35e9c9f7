"""Which losses and metrics of Keras match the logits of a task, its labels, and each other.

`Labels.compiled` checks all three together. `losses` and `metrics` contain only what Keras lacks, and neither knows the
other, so the rules for combining them are here.
"""

import contextlib
import inspect
import itertools

import keras
import numpy as np

from keras_transfer.core.names import did_you_mean
from keras_transfer.losses import SmoothedCrossentropy, SparseCategoricalFocalCrossentropy
from keras_transfer.metrics import AUC, ClassCounts, WordAccuracy

# Names of losses of integer labels, in addition to those of Keras.
NAMED_LOSSES = {"focal": SparseCategoricalFocalCrossentropy, "label_smoothing": SmoothedCrossentropy}
_SHORT_NAMES = ("accuracy", "acc", "crossentropy", "ce")  # Only `compile` of Keras knows these.


def _plain(name):
    return name.replace("_", "").lower()


def _names(classes):
    return set(map(_plain, classes.split()))


# Classes of Keras, each of which stands for its function too, by what they expect.
_INTEGERS = _names(
    "CategoricalGeneralizedCrossEntropy SparseCategoricalCrossentropy SparseCategoricalAccuracy "
    "SparseTopKCategoricalAccuracy"
)
_ACCURACIES = _names(
    "Accuracy BinaryAccuracy CategoricalAccuracy SparseCategoricalAccuracy TopKCategoricalAccuracy "
    "SparseTopKCategoricalAccuracy"
)
_ANY_LABELS = _names("CTC Circle IoU MeanIoU BinaryIoU")  # The arguments of the last ones decide.
_CLASSES_APART = _names("BinaryCrossentropy BinaryFocalCrossentropy")
_CONFUSION = _names("Precision Recall TruePositives TrueNegatives FalsePositives FalseNegatives")
_WITH_THRESHOLDS = _CONFUSION | _names("BinaryAccuracy F1Score FBetaScore")
_PROBABILITIES = _names(
    "KLDivergence Poisson BinaryIoU PrecisionAtRecall RecallAtPrecision SensitivityAtSpecificity "
    "SpecificityAtSensitivity"
)
# These losses have no `from_logits`, or take logarithms, which negative logits do not have.
_LOSSES_OF_PROBABILITIES = _names("CategoricalGeneralizedCrossEntropy Dice KLDivergence Poisson Tversky")
_BASES = _names("Loss Metric Mean Sum MeanMetricWrapper")
_OF_KERAS = {
    kind: _plain(kind.__name__)
    for module in (keras.losses, keras.metrics)
    for kind in vars(module).values()
    if callable(kind)
}


def default_metrics(metrics, loss):
    """Returns the metrics of a task, or the accuracy if these expect integer labels and the loss does not."""
    kinds = [_kind(keras.metrics.get(metric)) for metric in keras.tree.flatten(metrics)]
    integers = any(kind in _INTEGERS for kind in kinds)
    return ["accuracy"] if integers and takes_vectors(loss) else metrics


def from_names(given, named, get, what):
    """Returns losses or metrics in the same structure, with the task's own for their names."""
    return keras.tree.map_structure(
        lambda each: _from_name(each, named, get, what) if isinstance(each, str) else each, given
    )


def _from_name(name, named, get, what):
    """Returns the task's loss or metric with a name, or the name if Keras knows it."""
    make = named.get(name.lower())
    if make is not None:
        return make()
    if name in _SHORT_NAMES:
        return name
    try:
        get(name)
    except ValueError:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, [*named, *_SHORT_NAMES])} Expected the name of a {what} of Keras, or "
            f"one of {[*named]}. Received: {what}={name!r}"
        ) from None
    return name


def check_loss(losses):
    """Raises a `ValueError` if a loss expects probabilities, since the outputs of a task are logits."""
    for loss in keras.tree.flatten(losses):
        found = keras.losses.get(loss)
        if _decides_itself(found):
            continue
        if _settings(found).get("from_logits") is False or _kind(found) in _LOSSES_OF_PROBABILITIES:
            raise ValueError(
                "The model returns logits, but `loss` expects probabilities. Use `loss='auto'`, or a loss with "
                f"`from_logits=True`, such as a cross-entropy. Received: loss={loss!r}"
            )


def check_metrics(metrics, loss):
    """Raises a `ValueError` if a metric of Keras expects probabilities, or different labels from the loss."""
    vectors = takes_vectors(loss)
    for metric in keras.tree.flatten(metrics):
        if metric is None or metric in ("accuracy", "acc"):  # Keras chooses the variant for the labels.
            continue
        if metric in ("crossentropy", "ce"):
            raise ValueError(
                "The model returns logits, but the metric expects probabilities. Use a cross-entropy of "
                f"`keras.metrics` with `from_logits=True`. Received: metric={metric!r}"
            )
        found = keras.metrics.get(metric)
        if isinstance(found, (ClassCounts, AUC)) and vectors and not trains_classes_apart(loss):
            raise ValueError(
                "`loss` expects one-hot labels, but the metric treats labels [texts, classes] as several per text. "
                "Use integer labels with `loss='auto'`, or `BinaryCrossentropy(from_logits=True)` for several labels. "
                f"Received: metric={metric!r}"
            )
        kind = _kind(found)
        if kind is None or _decides_itself(found):
            continue
        if kind == "accuracy" or _expects_probabilities(kind, _settings(found)):
            raise ValueError(
                "The model returns logits, but the metric expects probabilities or class numbers. Use 'accuracy', "
                "`from_logits=True`, or `thresholds=0` (a probability of one half) if the metric has that argument. "
                f"Received: metric={metric!r}"
            )
        if vectors is None or kind in _ANY_LABELS or vectors == (kind not in _INTEGERS):
            continue
        ours, others = ("integer labels", "one-hot labels [texts, classes]")[:: -1 if vectors else 1]
        raise ValueError(
            f"`loss` expects {ours}, but the metric expects {others}. Use `metrics=['accuracy']`, or a loss and "
            f"metrics for the same labels. Received: metric={metric!r}"
        )


def takes_vectors(losses):
    """Returns whether a loss expects labels `[..., classes]` or integers `[...]`, or `None` if it is unknown."""
    for loss in keras.tree.flatten(losses):
        found = keras.losses.get(loss)
        if getattr(found, "takes_integers", False):
            return False
        kind = _kind(found)
        if kind is not None and kind not in _ANY_LABELS and not _decides_itself(found):
            return kind not in _INTEGERS
    return None


def is_accuracy(metric):
    """Returns whether a metric compares classes. A user's metric may define what is accurate for numbers."""
    if isinstance(metric, str):
        if metric in _SHORT_NAMES:
            return metric in ("accuracy", "acc")
        with contextlib.suppress(ValueError):  # The task may have its own metric with this name.
            metric = keras.metrics.get(metric)
    kinds = _classes(metric) if not isinstance(metric, type) else [metric]
    return kinds[0] is WordAccuracy or _OF_KERAS.get(kinds[0]) in _ACCURACIES


def trains_classes_apart(losses):
    """Returns whether a loss trains each class independently, so that a text may have several labels."""
    return any(_kind(keras.losses.get(loss)) in _CLASSES_APART for loss in keras.tree.flatten(losses))


def _kind(function):
    """Returns the plain name of a Keras loss or metric, or of the first base class from Keras, or `None`."""
    names = (_OF_KERAS[found] for found in _classes(function) if found in _OF_KERAS)
    return next((name for name in names if name not in _BASES), None)


def _decides_itself(function):
    """Returns whether a user's subclass converts labels or outputs itself, before or instead of Keras's class."""
    own = itertools.takewhile(lambda found: found not in _OF_KERAS, _classes(function))
    return any({"call", "update_state", "__call__"} & vars(found).keys() for found in own if isinstance(found, type))


def _classes(function):
    return type(function).__mro__ if isinstance(function, (keras.losses.Loss, keras.metrics.Metric)) else [function]


def _settings(function):
    """Returns the arguments of a loss or metric. For a function, these are the default values."""
    if isinstance(function, (keras.losses.Loss, keras.metrics.Metric)):
        return function.get_config()
    if not callable(function):
        return {}
    return {name: argument.default for name, argument in inspect.signature(function).parameters.items()}


def _expects_probabilities(kind, settings):
    if kind in _WITH_THRESHOLDS:
        thresholds = settings.get("thresholds", settings.get("threshold"))
        if thresholds is None:  # This means one half, or the most likely class.
            return kind in _CONFUSION and settings.get("top_k") is None
        return bool(np.any(np.ravel(thresholds) != 0))
    return kind in _PROBABILITIES or settings.get("from_logits") is False
