"""Entities as spans of words: reading them from labels, and scoring them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from keras_transfer.core.expect import expect

OUTSIDE = ("O", "")


def entities(labels: Sequence[str]) -> list:
    """Returns the entities of one sentence, with the rules of conlleval and of seqeval's default mode.

    Every label except `O` belongs to an entity, even if the sequence is not well-formed: `I-` after `O` and a change of
    type both start an entity. `B-` and `S-` always start an entity, and `E-` and `S-` always end one.

    Args:
        labels: List of strings, one per word: `O`, or a prefix `B`, `I`, `E` or `S`, optionally with a dash and a type.

    Returns:
        A list of `(type, start, end)`, where `end` is exclusive. A prefix without a type has the type `_`.

    Raises:
        ValueError: If a label has an invalid form.

    Example:
    ```python
    keras_transfer.metrics.entities(["B-PER", "I-PER", "O", "I-LOC"])  # [("PER", 0, 2), ("LOC", 3, 4)]
    ```

    Source: https://www.clips.uantwerpen.be/conll2000/chunking/conlleval.txt; https://github.com/chakki-works/seqeval.
    """
    found, start = [], 0
    for place, (before, after) in enumerate(pairwise([OUTSIDE, *read_labels(labels), OUTSIDE])):
        if parted(before, after):
            if before != OUTSIDE:
                found.append((before[1], start, place))
            start = place
    return found


def entity_report(y_true: Any, y_pred: Any) -> dict:
    """Returns precision, recall and F1 for each type of entity and on average.

    A predicted entity is correct if its type, start and end are correct.

    Args:
        y_true: List of sentences, each a list of labels as in `entities`.
        y_pred: List of sentences, each a list of predicted labels.

    Returns:
        A dict with the types in alphabetical order, `"micro"` (over all entities) and `"macro"` (the mean over types).
        Each value is a dict with the floats `precision`, `recall` and `f1`, which are 0 if undefined, and `support`,
        the number of true entities.

    Raises:
        ValueError: If a label has an invalid form, the numbers of sentences or words differ, or a type is named `micro`
            or `macro`.

    Example:
    ```python
    report = keras_transfer.metrics.entity_report([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "S-LOC"]])
    report["micro"]  # {"precision": 0.5, "recall": 1.0, "f1": 0.666..., "support": 1}
    ```
    """
    rule = "The numbers of true and predicted sentences must be equal."
    expect(len(y_true) == len(y_pred), rule, y_true=len(y_true), y_pred=len(y_pred))
    counts = {}  # Each type has a list: right, true, predicted.
    for number, (wanted, given) in enumerate(zip(y_true, y_pred)):
        if len(wanted) != len(given):
            lengths = f"{len(wanted)} and {len(given)} in sentence {number}"
            raise ValueError(
                f"The numbers of true and predicted labels of a sentence must be equal. Received: {lengths}"
            )
        wanted, given = set(entities(wanted)), set(entities(given))
        for column, spans in enumerate((wanted & given, wanted, given)):
            for kind, _, _ in spans:
                counts.setdefault(kind, np.zeros(3, int))[column] += 1
    if taken := sorted({"micro", "macro"} & set(counts)):
        raise ValueError(
            "An entity type cannot be named 'micro' or 'macro', which are the keys of the averages in the report. "
            f"Received: {taken}"
        )
    report = {kind: _scores(*counts[kind]) for kind in sorted(counts)}
    micro = _scores(*sum(counts.values(), np.zeros(3, int)))
    macro = {name: sum(row[name] for row in report.values()) / (len(report) or 1) for name in micro}
    return {**report, "micro": micro, "macro": {**macro, "support": micro["support"]}}


def _scores(right, true, predicted):
    precision, recall = (float(right / total) if total else 0.0 for total in (predicted, true))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "support": int(true)}


def read_labels(labels):
    """Returns `(prefix, type)` of each label in a list, and raises a ValueError for anything else."""
    expect(not isinstance(labels, str), "Labels must be a list of strings.", labels=labels)
    return [_read(label) for label in labels]


def _read(label):
    if label == "O":
        return OUTSIDE
    rule = "Labels must be O, or B, I, E or S, optionally followed by a dash and a type (B-PER)."
    expect(isinstance(label, str) and label[:1] in tuple("BIES") and (label[1:2] in ("", "-")), rule, label=label)
    return label[0], label[2:] or "_"


def parted(before, after):
    """Returns whether no entity continues from one `(prefix, type)` to the next."""
    return before[0] in "ESO" or after[0] in "BSO" or before[1] != after[1]
