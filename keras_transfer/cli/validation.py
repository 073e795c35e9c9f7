"""Validation data for the commands that train."""

import logging

import numpy as np

from keras_transfer import datasets
from keras_transfer.core.names import listed

log = logging.getLogger("keras_transfer")


def with_validation(parts, label_names):
    """Returns the parts of the data with validation data, by default a fifth of the training data.

    Logs a warning if no text of a label remains for training.
    """
    if "validation" in parts:
        return parts
    train, held_out = datasets.hold_out(parts["train"])
    if missing := _missing(train[1], label_names or ()):
        log.warning(
            "All texts with the labels %s are held out for validation. Pass --validation-data to choose these texts.",
            listed(missing),
        )
    return {**parts, "train": train, "validation": held_out}


def as_task_labels(part, label_names):
    """Returns `(texts, labels)` with unambiguous labels: names, an array of zeros and ones, or floats."""
    texts, labels = part
    if label_names is None:
        return texts, labels
    if isinstance(labels[0], list):
        return texts, np.array(labels)
    return texts, [label_names[place] for place in labels]


def _missing(labels, names):
    """Returns the label names that do not occur."""
    if isinstance(labels[0], list):  # The lists contain zeros and ones.
        labels = np.flatnonzero(np.any(labels, axis=0))
    occurring = set(labels)
    return [name for place, name in enumerate(names) if place not in occurring]
