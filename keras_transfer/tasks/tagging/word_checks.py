"""Checks of the losses, metrics and labels of a `TokenClassifier`."""

import logging

import keras
import numpy as np

from keras_transfer.batches import NO_WORD
from keras_transfer.metrics.words import WordAccuracy
from keras_transfer.tasks.base import takes_vectors

log = logging.getLogger("keras_transfer")


def check_word_loss(loss):
    """Raises a `ValueError` if a loss does not take integer labels, or would count positions without a word."""
    if loss != "auto" and takes_vectors(loss):
        raise ValueError(
            "`loss` must take integer labels [batch, length]. Use `loss='auto'`, or a "
            f"`SparseCategoricalCrossentropy` of logits with `ignore_class=-1`. Received: loss={loss!r}"
        )
    for function in map(_get_loss, keras.tree.flatten(loss)):
        config = function.get_config() if isinstance(function, keras.losses.Loss) else {}
        if config.get("ignore_class", NO_WORD) != NO_WORD:
            raise ValueError(
                "`loss` must ignore the label -1, which marks positions without a word. Use `loss='auto'` or "
                f"`ignore_class=-1`. Received: loss={function!r}"
            )


def _get_loss(loss):
    return loss if loss is None or loss == "auto" else keras.losses.get(loss)


def word_metric(metric):
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


def check_labels_of_sentences(labels):
    """Raises a `ValueError` if labels of raw sentences are not one list for each sentence."""
    for index, tags in enumerate(labels if isinstance(labels, (list, tuple, np.ndarray)) else ()):
        if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__"):
            raise ValueError(
                "Labels must be one list for each sentence, and sentences lists of words. Pass a single sentence as "
                f"`[words]` and its labels as `[labels]`. Received: {tags!r:.100} at position {index}"
            )


def warn_of_words(sentences):
    """Logs a warning if there are several texts of one word each, which are probably the words of one sentence."""
    if len(sentences) > 1 and all(len(words) == 1 for words in sentences):
        log.warning(
            "Each of the %d texts is a single word, and is read as a sentence of its own. If they are the words of one "
            "sentence, pass `[words]`. The first are %.100s.",
            len(sentences),
            [words[0] for words in sentences[:3]],
        )
