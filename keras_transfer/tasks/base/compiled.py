"""How a task is compiled: with its own loss and metrics, or with others that fit logits and each other."""

import inspect
import itertools
import logging

import keras
import numpy as np

from keras_transfer.distribute import check_accumulation, check_scope
from keras_transfer.metrics.classification import AUC, ClassCounts
from keras_transfer.names import did_you_mean
from keras_transfer.training.optimizers import FusedAdamW

log = logging.getLogger("keras_transfer")

# Names of Keras in lower case without underscores, so that a class and its function have the same name.
_BASES = {"loss", "lossfunctionwrapper", "metric", "mean", "sum", "meanmetricwrapper"}
_CLASSES_APART = {"binarycrossentropy", "binaryfocalcrossentropy"}
_SHORT_NAMES = ("accuracy", "acc", "crossentropy", "ce")  # which only `compile` of Keras knows
_OTHER_LOSSES = {"ctc", "circle"}
_OTHER_METRICS = {"iou", "meaniou", "binaryiou"}  # Their arguments determine which labels they take.
_CONFUSION = {"precision", "recall", "truepositives", "truenegatives", "falsepositives", "falsenegatives"}
_WITH_THRESHOLDS = {*_CONFUSION, "binaryaccuracy", "f1score", "fbetascore"}
_OF_PROBABILITIES = {"kldivergence", "poisson", "binaryiou", "precisionatrecall", "recallatprecision"}
_OF_PROBABILITIES |= {"sensitivityatspecificity", "specificityatsensitivity"}


class Compiled:
    """A mixin for `compile`, with the defaults of a task."""

    def compile(self, optimizer="auto", loss="auto", metrics="auto", **kwargs):
        """Configures training as `keras.Model.compile` does, with defaults for the task.

        Args:
            optimizer: As in Keras. `"adamw"` is a `FusedAdamW`. Defaults to `"auto"`, a `FusedAdamW` with a learning
                rate of 5e-5.
            loss: As in Keras, for logits, or a name of `named_losses`. Defaults to `"auto"`, the loss of the task.
            metrics: As in Keras, or names of `named_metrics`. Defaults to `"auto"`, the metrics of the task, or the
                accuracy if these do not take the labels of the loss.
            **kwargs: As in Keras.

        Raises:
            ValueError: If the name of a loss or metric is unknown, if one of them expects probabilities, if a metric
                takes other labels than the loss, if the model or its encoder was created outside of the strategy's
                scope, or if the optimizer accumulates gradients on several replicas of TensorFlow.
        """
        check_scope(self)
        check_accumulation(self, optimizer)
        warn_of_half_weights(self)
        rates = {"auto": 5e-5, "adamw": 1e-3}
        if isinstance(optimizer, str) and optimizer in rates:
            optimizer = FusedAdamW(rates[optimizer])
        if isinstance(loss, str):
            named = {"auto": self.default_loss, **self.named_losses()}
            loss = _of_name(loss, named, keras.losses.get, "loss")
        metrics = self._metrics_for(loss) if isinstance(metrics, str) and metrics == "auto" else metrics
        metrics = self._with_names(metrics)
        if "weighted_metrics" in kwargs:
            kwargs["weighted_metrics"] = self._with_names(kwargs["weighted_metrics"])
        check_loss(loss)
        check_metrics([metrics, kwargs.get("weighted_metrics")], loss)
        super().compile(optimizer, loss=loss, metrics=metrics, **kwargs)
        self.compile_again = False

    def _metrics_for(self, loss):
        """Returns the metrics of the task, or the accuracy if these take integer labels and the loss does not."""
        metrics = self.default_metrics()
        names = [_name(keras.metrics.get(metric)) for metric in keras.tree.flatten(metrics)]
        integers = any(name is not None and _metric_takes_vectors(name) is False for name in names)
        return ["accuracy"] if integers and takes_vectors(loss) else metrics

    def _with_names(self, metrics):
        """Returns metrics in the same structure, with an object for each name in `named_metrics`."""
        named = self.named_metrics()
        return keras.tree.map_structure(
            lambda metric: _of_name(metric, named, keras.metrics.get, "metric") if isinstance(metric, str) else metric,
            metrics,
        )

    def compile_from_config(self, config):
        """Compiles a loaded model as it was before. Keras skips this for a class that overrides `compile`."""
        super().compile(**keras.saving.deserialize_keras_object(config))
        if getattr(self, "optimizer", None) is not None:
            self.optimizer.build(self.trainable_variables)


def _of_name(name, named, get, what):
    """Returns the loss or metric of a name among those of the task, or the name if Keras knows it."""
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


def warn_of_half_weights(model):
    """Logs a warning if weights to train have so few digits that small updates do not change them."""
    half = [weight.dtype for weight in model.trainable_weights if weight.dtype in ("bfloat16", "float16")]
    if half:
        log.warning(
            "The weights to train are %s. Updates that are much smaller than a weight are rounded away, so with usual "
            "learning rates most weights do not move. Create the model with the dtype policy 'mixed_%s', which keeps "
            "the weights in float32.",
            half[0],
            half[0],
        )


def check_loss(losses):
    """Raises a `ValueError` if a loss expects probabilities, since the outputs of a task are logits."""
    for loss in keras.tree.flatten(losses):
        found = keras.losses.get(loss)
        if not _decides_itself(found) and _settings(found).get("from_logits") is False:
            raise ValueError(
                "The model returns logits, but `loss` expects probabilities. Use `loss='auto'`, or a loss with "
                f"`from_logits=True`. Received: loss={loss!r}"
            )


def check_metrics(metrics, loss):
    """Raises a `ValueError` if a metric of Keras expects probabilities, or other labels than the loss.

    Args:
        metrics: Metrics as in `compile`.
        loss: Loss as in `compile`.
    """
    vectors = takes_vectors(loss)
    for metric in keras.tree.flatten(metrics):
        if metric is None or metric in ("accuracy", "acc"):  # Keras chooses the one that fits the labels.
            continue
        if metric in ("crossentropy", "ce"):
            raise ValueError(
                "The model returns logits, but the metric expects probabilities. Use a cross-entropy of "
                f"`keras.metrics` with `from_logits=True`. Received: metric={metric!r}"
            )
        found = keras.metrics.get(metric)
        if isinstance(found, (ClassCounts, AUC)) and vectors and not trains_classes_apart(loss):
            raise ValueError(
                "`loss` takes one-hot labels, but the metric reads labels [texts, classes] as several labels per text. "
                "Use integer labels with `loss='auto'`, or `BinaryCrossentropy(from_logits=True)` for several labels. "
                f"Received: metric={metric!r}"
            )
        name = _name(found)
        if name is None or _decides_itself(found):
            continue
        if name == "accuracy" or _expects_probabilities(name, _settings(found)):
            raise ValueError(
                "The model returns logits, but the metric expects probabilities or class numbers. Use 'accuracy', "
                "`from_logits=True`, or `thresholds=0` (a probability of one half) if the metric has that argument. "
                f"Received: metric={metric!r}"
            )
        if None in (vectors, _metric_takes_vectors(name)) or vectors == _metric_takes_vectors(name):
            continue
        ours, others = ("integer labels", "one-hot labels [texts, classes]")[:: -1 if vectors else 1]
        raise ValueError(
            f"`loss` takes {ours}, but the metric takes {others}. Use `metrics=['accuracy']`, or a loss and metrics "
            f"that take the same labels. Received: metric={metric!r}"
        )


def takes_vectors(losses):
    """Returns whether a loss takes labels [..., classes] (True) or integers [...] (False); None if it is not known."""
    for loss in keras.tree.flatten(losses):
        found = keras.losses.get(loss)
        if getattr(found, "takes_integers", False):
            return False
        name = _name(found)
        if name is not None and name not in _OTHER_LOSSES and not _decides_itself(found):
            return name != "sparsecategoricalcrossentropy"
    return None


def trains_classes_apart(losses):
    """Returns whether a loss trains each class on its own, so that a text may have several labels."""
    return any(_name(keras.losses.get(loss)) in _CLASSES_APART for loss in keras.tree.flatten(losses))


def _name(function):
    """Returns the name of a Keras loss or metric, or of a base class from Keras, or None."""
    for found in _classes(function):
        if _is_of_keras(found):
            name = found.__name__.replace("_", "").lower()
            return None if name in _BASES else name
    return None


def _decides_itself(function):
    """Returns whether a user's subclass converts labels or outputs itself, before or instead of Keras's class."""
    own = itertools.takewhile(lambda found: not _is_of_keras(found), _classes(function))
    return any({"call", "update_state", "__call__"} & vars(found).keys() for found in own if isinstance(found, type))


def _classes(function):
    return type(function).__mro__ if isinstance(function, (keras.losses.Loss, keras.metrics.Metric)) else [function]


def _is_of_keras(found):
    return (getattr(found, "__module__", None) or "").startswith("keras.")


def _settings(function):
    """Returns the arguments of a loss or metric. For a function, these are the default values."""
    if isinstance(function, (keras.losses.Loss, keras.metrics.Metric)):
        return function.get_config()
    if not callable(function):
        return {}
    return {name: argument.default for name, argument in inspect.signature(function).parameters.items()}


def _expects_probabilities(name, settings):
    if name in _WITH_THRESHOLDS:
        thresholds = settings.get("thresholds", settings.get("threshold"))
        if thresholds is None:  # This means one half, or the most likely class.
            return name in _CONFUSION and settings.get("top_k") is None
        return bool(np.any(np.ravel(thresholds) != 0))
    return name in _OF_PROBABILITIES or settings.get("from_logits") is False


def _metric_takes_vectors(name):
    return None if name in _OTHER_METRICS else not name.startswith("sparse")
