"""Which losses and metrics of Keras match the logits of a task, its labels, and each other.

`Labels.compiled` checks all three together, and wraps the losses of labels with unused places. `losses` and `metrics`
contain only what Keras lacks, and neither knows the other, so the rules for combining them are here.
"""

import contextlib
import inspect
import itertools

import keras
import numpy as np
from keras import ops

from keras_transfer.core.names import belongs, did_you_mean
from keras_transfer.data import UNUSED
from keras_transfer.losses import SmoothedCrossentropy, SparseCategoricalFocalCrossentropy
from keras_transfer.metrics import AUC, ClassCounts, WordAccuracy

# Names of losses of integer labels, in addition to those of Keras.
NAMED_LOSSES = {"focal": SparseCategoricalFocalCrossentropy, "label_smoothing": SmoothedCrossentropy}
_MEANS = ("sum_over_batch_size", "mean")
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


def from_name(name, named, what):
    """Returns the task's own loss or metric (`what`) for its name, and anything else that Keras knows unchanged."""
    if not isinstance(name, str):
        return name
    make = named.get(name.lower())
    if make is not None:
        return make()
    if name in _SHORT_NAMES:
        return name
    try:
        (keras.losses if what == "loss" else keras.metrics).get(name)
    except ValueError:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, [*named, *_SHORT_NAMES])} Expected the name of a {what} of Keras, or "
            f"one of {[*named]}. Received: {what}={name!r}"
        ) from None
    return name


def placed(value, kind, argument):
    """Returns what `compile` has received, or raises a `ValueError` if it belongs elsewhere, such as a callback."""
    if advice := belongs(value, kind):
        raise ValueError(f"`{argument}` does not accept a {type(value).__name__}.{advice} Received: {value!r:.100}")
    return value


def checked_loss(loss, named):
    """Returns a loss, or raises a `ValueError` if it expects probabilities, since the outputs of a task are logits."""
    loss = from_name(loss, named, "loss")
    found = keras.losses.get(loss)
    if _decides_itself(found):
        return loss
    if _settings(found).get("from_logits") is False or _kind(found) in _LOSSES_OF_PROBABILITIES:
        raise ValueError(
            "The model returns logits, but `loss` expects probabilities. Use `loss='auto'`, or a loss with "
            f"`from_logits=True`, such as a cross-entropy. Received: loss={loss!r}"
        )
    return loss


def checked_metric(metric, loss, named):
    """Returns a metric, or raises a `ValueError` if it expects probabilities, or different labels from the loss."""
    metric, vectors = from_name(metric, named, "metric"), takes_vectors(loss)
    if metric is None or metric in ("accuracy", "acc"):  # Keras chooses the variant for the labels.
        return metric
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
        return metric
    if kind == "accuracy" or _expects_probabilities(kind, _settings(found)):
        raise ValueError(
            "The model returns logits, but the metric expects probabilities or class numbers. Use 'accuracy', "
            "`from_logits=True`, or `thresholds=0` (a probability of one half) if the metric has that argument. "
            f"Received: metric={metric!r}"
        )
    if vectors is None or kind in _ANY_LABELS or vectors == (kind not in _INTEGERS):
        return metric
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


@keras.saving.register_keras_serializable(package="keras_transfer")
class UsedPlaces(keras.losses.Loss):
    """A loss that counts only the used places: it is their mean, or their sum, whatever the padding.

    Keras's and this library's losses never see a negative label. A user's own loss does, and decides itself if it
    returns fewer values than there are places. With `by_weight`, places whose sample weight is 0 are unused, too.
    """

    takes_integers = counts_used_places = True

    def __init__(self, loss, by_weight=False):
        is_object = isinstance(loss, keras.losses.Loss)
        options = {"reduction": loss.reduction, "dtype": loss.dtype} if is_object else {}
        # TensorFlow accepts no scope with the name of a lambda.
        super().__init__(name=loss.name if is_object else None, **options)
        self.loss, self.by_weight = loss, by_weight
        self._is_own = takes_vectors(loss) is None  # It may leave out negative labels itself.

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1:  # They are weights of rows.
                sample_weight = sample_weight[:, None]
            if self.by_weight:
                y_true = ops.where(sample_weight == 0, ops.cast(UNUSED, y_true.dtype), y_true)
        if self.reduction == "mean_with_sample_weight":
            used = ops.cast(y_true >= 0, self.dtype)
            sample_weight = used if sample_weight is None else used * ops.cast(sample_weight, self.dtype)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        used = y_true >= 0
        labels = y_true if self._is_own else ops.maximum(y_true, 0)
        losses = getattr(self.loss, "call", self.loss)(labels, y_pred)
        if len(losses.shape) != len(used.shape):
            return losses
        losses = ops.where(used, losses, 0)
        if self.reduction not in _MEANS:
            return losses
        # Keras divides by the number of all places.
        count = ops.maximum(ops.sum(ops.cast(used, losses.dtype)), 1)
        return losses * (ops.cast(ops.size(losses), losses.dtype) / count)

    def get_config(self):
        return {"loss": keras.saving.serialize_keras_object(self.loss), "by_weight": self.by_weight}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["loss"]), config["by_weight"])


def of_used_places(loss, by_weight):
    """Returns a loss of `compile` that counts only the used places, or raises a `ValueError` if it ignores others."""
    loss = keras.losses.get(loss)
    if loss is None or getattr(loss, "counts_used_places", False):
        return loss
    ignored = loss.get_config().get("ignore_class") if isinstance(loss, keras.losses.Loss) else None
    if ignored not in (None, UNUSED):
        raise ValueError(
            f"`loss` must ignore the label {UNUSED}, which marks unused places, and no class. Use `loss='auto'`, or "
            f"leave `ignore_class` out. Received: ignore_class={ignored!r}"
        )
    return loss if ignored == UNUSED and not by_weight else UsedPlaces(loss, by_weight)
