"""Validation data for the commands that train."""

import logging

from keras_transfer import datasets

log = logging.getLogger("keras_transfer")


def with_validation(parts, label_names):
    """Returns the parts of the data with validation data, for which a fifth of the training data may be held out.

    Logs a warning if no text of a label remains for training.

    Args:
        parts: Dict with `"train"` and perhaps `"validation"` and `"test"`: tuples of texts and labels.
        label_names: List of strings, or None if labels are numbers to predict.
    """
    if "validation" in parts:
        return parts
    train, held_out = datasets.hold_out(parts["train"])
    if missing := [name for place, name in enumerate(label_names or ()) if place not in set(train[1])]:
        log.warning(
            "All texts with the labels %s are held out for validation. Pass --validation to choose these texts.",
            missing,
        )
    return {**parts, "train": train, "validation": held_out}
