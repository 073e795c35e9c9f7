"""What is in a row, and how the rows of a batch become an item."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Contents:
    """What is in a row, and how a batch of rows becomes an item.

    Args:
        kind: String. What a row is: `"texts"`, `"pairs"`, `"parts"` (several texts that are encoded separately) or
            `"words"`. Defaults to `None`, if it is unknown.
        prepare: Function that returns an item, given a tuple of the inputs, the labels (or None) and the weights (or
            None) of a batch, its length, and a `np.random.Generator`. Defaults to `None`, for an item of those of the
            three that there are.
        makes_labels: Boolean. Whether `prepare` makes the labels. Defaults to `False`.
        places: `WordPlaces`, for words. Defaults to `None`.
        real_labels: Integer array [rows]. The length of each row of labels [rows, length] that are padded on the right,
            such as target texts. Defaults to `None`, for labels that are not sequences.
        seed: Integer. Seed of what `prepare` draws, and of the order of batches without a seed of their own. Defaults
            to `None`, the seed of the batches.
        parts_apart: Boolean. Whether labels [rows, parts] are numbers of texts, and rows with equal ones are put into
            different batches where possible. Defaults to `False`.
    """

    kind: str | None = None
    prepare: object = None
    makes_labels: bool = False
    places: object = None
    real_labels: Any = None
    seed: int | None = None
    parts_apart: bool = False


def no_weights(received):
    """Returns the error for rows with weights of which an objective makes targets, given what was received."""
    return ValueError(
        "Rows of which an objective makes targets have no weights, since each of their targets would need one. "
        f"Leave `sample_weight` out. Received: {received}"
    )


def real_lengths(inputs):
    """Returns the number of real tokens of each row (of its longest part, if it has parts), or 1 for strings."""
    if "padding_mask" in inputs:
        real = inputs["padding_mask"].sum(axis=1)
        return real if real.ndim == 1 else real.max(axis=1)
    return np.ones(len(next(iter(inputs.values()))), int)
