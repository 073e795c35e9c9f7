"""Labels of words: names or numbers, one for each word of a sentence."""

import logging

import keras
import numpy as np

from keras_transfer.arrays import to_numpy
from keras_transfer.batches import UNUSED
from keras_transfer.metrics.words import EntityF1, WordAccuracy
from keras_transfer.tasks.labels import NAMED_LOSSES, Labels, weights_of_classes
from keras_transfer.tasks.tagging.word_chain import ChainLoss

log = logging.getLogger("keras_transfer")


class WordTags(Labels):
    """Lists of names or numbers, one for each word. Prepared labels are `[batch, length]`, negative without a word.

    Args:
        names: List of strings. Names of the labels, in the order of the logits.
        field: `layers.ConditionalRandomField`, or `None`. Defaults to `None`.
    """

    of_places = True

    def __init__(self, names, field=None):
        self.names, self.field = names, field

    def loss(self):
        if self.field is not None:
            return ChainLoss(self.field)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=UNUSED)

    def metrics(self):
        if not any(name.startswith(("B-", "I-", "E-", "S-")) for name in self.names):
            return [WordAccuracy()]
        try:
            return [WordAccuracy(), EntityF1(self.names)]
        except ValueError as error:
            log.warning("`EntityF1` is not used, because some of `label_names` are not entity labels: %s", error)
            return [WordAccuracy()]

    def named_losses(self):
        return NAMED_LOSSES

    def named_metrics(self):
        return {"entity_f1": lambda: EntityF1(self.names)}

    def compiled(self, loss, metrics, weighted_metrics):
        if self.field is not None and loss != "auto":
            raise ValueError(
                f"With `crf=True`, the loss must be `'auto'`, the loss of the CRF. Received: loss={loss!r}"
            )
        metrics = self.metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        metrics, weighted_metrics = (self._with_names(given) for given in (metrics, weighted_metrics))
        metrics, weighted_metrics = (keras.tree.map_structure(_metric, given) for given in (metrics, weighted_metrics))
        return super().compiled(loss, metrics, weighted_metrics)

    def check(self, labels, loss=None, inputs=None):
        labels = to_numpy(labels) if keras.ops.is_tensor(labels) else labels
        kind = getattr(getattr(labels, "dtype", None), "kind", "O")
        if isinstance(labels, (list, tuple)) or hasattr(labels, "to_pylist") or kind in "OUS":
            return _check_sentences(labels)  # `word_batches` checks the labels of words.
        labels = np.asarray(labels)
        received = f"{labels.dtype} of shape {labels.shape}"
        if labels.ndim == 2 and labels.dtype.kind in "iuf":
            with np.errstate(invalid="ignore"):
                wrong = np.argwhere((labels >= len(self.names)) | (labels % 1 != 0))
            if not len(wrong):
                return
            place = tuple(wrong[0].tolist())
            received = f"{labels[place]} at position {place}"
        raise ValueError(
            "Labels must contain one list for each sentence. For prepared data, they must be integers [batch, length] "
            f"from 0 to {len(self.names) - 1}, and negative at positions without a word. Received: {received}"
        )

    def class_weight(self, weights, labels=None):
        return weights_of_classes(weights, self.names, labels)

    def placeholders(self, columns):
        return [[0] * len(words) for words in columns]

    def mask(self, labels, sample_weight):
        if labels is None:
            raise ValueError(
                "Prepared data for a `TokenClassifier` must include labels [batch, length], which mark the words. "
                "Received: no labels"
            )
        if self.field is not None:
            raise ValueError(
                "A `TokenClassifier` with `crf=True` has a likelihood for each row, not for each label. Use "
                "`crf=False`. Received: crf=True"
            )
        weights = labels >= 0
        if sample_weight is not None:
            weights = weights * (sample_weight[:, None] if sample_weight.ndim == 1 else sample_weight)
        return np.maximum(labels, 0), weights.astype("float32")


def _metric(metric):
    """Returns a metric that ignores positions without a word. "accuracy" becomes `WordAccuracy`."""
    if metric is None or metric in ("accuracy", "acc"):
        return metric and WordAccuracy()
    module = getattr(metric, "__module__", None) or type(metric).__module__
    if isinstance(metric, str) or module.startswith("keras."):
        raise ValueError(
            "Metrics must ignore the label -1, which marks positions without a word. Use `metrics='auto'` or the "
            f"metrics of `keras_transfer.metrics`. Received: {metric!r}"
        )
    return metric


def _check_sentences(labels):
    """Raises a `ValueError` unless the labels of raw sentences are a list for each sentence."""
    for index, tags in enumerate(labels if isinstance(labels, (list, tuple, np.ndarray)) else ()):
        if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__"):
            raise ValueError(
                "Labels must be one list for each sentence, and sentences lists of words. Pass a single sentence as "
                f"`[words]` and its labels as `[labels]`. Received: {tags!r:.100} at position {index}"
            )
