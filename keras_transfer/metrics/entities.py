"""Entities from the labels of words: which words are one entity, and how many were found."""

from itertools import pairwise

import numpy as np

OUTSIDE = ("O", "")


def entities(labels):
    """Returns the entities of one sentence, as conlleval and seqeval (its default mode) read them.

    Every label but `O` belongs to an entity, also where it is not well-formed: `I-` after `O` begins one, and so does
    a change of type. `B-` and `S-` begin one always, after `E-` and `S-` one has ended.

    Args:
        labels: list of str, one a word: `O`, or a prefix `B`, `I`, `E` or `S`, alone or before a dash and a type.

    Returns:
        A list of `(type, start, end)`; the words are `start` to `end - 1`. A prefix alone has the type `_`.

    Raises:
        ValueError: a label is of another form.

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


def entity_report(true, predicted):
    """Returns precision, recall and F1 of each type of entity and over all; an entity is right if all of it is.

    Args:
        true: list of sentences, each a list of str as in `entities`.
        predicted: as `true`.

    Returns:
        A dict with a key for each type in alphabetical order, `"micro"` (all entities alike) and `"macro"` (the mean of
        the types), of dicts with `precision`, `recall` and `f1`, floats that are 0 where nothing is divided by
        nothing, and `support`, the number of true entities.

    Raises:
        ValueError: a label is of another form; there are not as many sentences, or words in a sentence; a type is
            called micro or macro.

    Example:
    ```python
    report = keras_transfer.metrics.entity_report([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "S-LOC"]])
    report["micro"]  # {"precision": 0.5, "recall": 1.0, "f1": 0.666..., "support": 1}
    ```
    """
    if len(true) != len(predicted):
        raise ValueError(f"each sentence has true and predicted labels. Received: {len(true)} and {len(predicted)}")
    counts = {}  # of each type: right, true, predicted
    for number, (wanted, given) in enumerate(zip(true, predicted)):
        if len(wanted) != len(given):
            lengths = f"{len(wanted)} true and {len(given)} predicted labels"
            raise ValueError(f"each word has a true and a predicted label. Received: {lengths} in sentence {number}")
        wanted, given = set(entities(wanted)), set(entities(given))
        for column, spans in enumerate((wanted & given, wanted, given)):
            for kind, _, _ in spans:
                counts.setdefault(kind, np.zeros(3, int))[column] += 1
    if taken := sorted({"micro", "macro"} & set(counts)):
        raise ValueError(f"micro and macro are what the averages are called. Received: types of that name, {taken}")
    report = {kind: _scores(*counts[kind]) for kind in sorted(counts)}
    micro = _scores(*sum(counts.values(), np.zeros(3, int)))
    macro = {name: sum(row[name] for row in report.values()) / (len(report) or 1) for name in micro}
    return {**report, "micro": micro, "macro": {**macro, "support": micro["support"]}}


def _scores(right, true, predicted):
    precision, recall = (float(right / total) if total else 0.0 for total in (predicted, true))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "support": int(true)}


def read_labels(labels):
    """Returns `(prefix, type)` of each label; a label alone in a string, or of another form, is an error."""
    if isinstance(labels, str):
        raise ValueError(f"a list of labels is expected. Received: {labels!r}")
    return [_read(label) for label in labels]


def _read(label):
    if label == "O":
        return OUTSIDE
    if not isinstance(label, str) or label[:1] not in tuple("BIES") or label[1:2] not in ("", "-"):
        raise ValueError(
            f"a label of entities is O, or B, I, E or S, alone or before a dash and a type (B-PER). Received: {label!r}"
        )
    return label[0], label[2:] or "_"


def parted(before, after):
    """Whether no entity goes on from one `(prefix, type)` to the next."""
    return before[0] in "ESO" or after[0] in "BSO" or before[1] != after[1]
