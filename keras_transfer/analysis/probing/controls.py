"""What the score of a probe is compared with: a control task, the length of a description, and frequent labels."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.analysis.probing.bank import answers, steps_of, train
from keras_transfer.core.expect import expect, expects, integer

# Fractions of the sentences that are coded one after the other (Voita and Titov 2020, section 3.2.2).
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
KBIT = 1024
VALIDATION_ITEMS = 4096  # They choose the epoch of each of many probes.


@expects(num_classes=integer(2), seed=integer(0))
def control_labels(words: Sequence[str], num_classes: int, *, probabilities: Any = None, seed: int = 0) -> np.ndarray:
    """Returns the labels of a control task: each different word has one class, which is drawn at random.

    A probe can only learn it by remembering words, so the difference to its score in the real task, the selectivity, is
    what the representation adds.

    Args:
        words: List of strings. The words of all parts of the data, the training part first.
        num_classes: Integer. Number of classes.
        probabilities: Float array `[classes]`. Frequency of each class in the real task. Defaults to `None`, equal.
        seed: Integer. Seed of the draw. Defaults to `0`.

    Returns:
        Integer array `[words]`.

    Raises:
        ValueError: If `num_classes` or `seed` is no such integer, or the probabilities have another number.

    Example:
    ```python
    keras_transfer.analysis.control_labels(["the", "film", "the"], 4)  # the same label for both "the"
    ```

    Source: Hewitt and Liang 2019, https://arxiv.org/abs/1909.03368.
    """
    fits = probabilities is None or np.shape(probabilities) == (num_classes,)
    rule = f"`probabilities` must have {num_classes} values, one for each class."
    expect(fits, rule, probabilities=np.shape(probabilities))
    types = {word: place for place, word in enumerate(dict.fromkeys(words))}
    drawn = np.random.default_rng(seed).choice(num_classes, size=len(types), p=probabilities)
    return drawn[[types[word] for word in words]]


class DescriptionLength(NamedTuple):
    """How many bits the labels need, given the vectors.

    Attributes:
        bits: Float. Length of the online code.
        authors_kbits: Float. The same in the arithmetic of the authors' code, which adds bits of the first portion and
            nats of the others, in units of 1,024.
        uniform_bits: Float. Length without vectors, if all classes are equally likely.
        compression: Float. `uniform_bits / bits`.
    """

    bits: Any
    authors_kbits: Any
    uniform_bits: float
    compression: Any


@expects(num_classes=integer(2))
def description_length(losses: Any, counts: Sequence[int], num_classes: int) -> DescriptionLength:
    """Returns the online code length of labels, from the losses of probes that were trained on growing portions.

    The first portion is coded with equal probabilities, and each of the others by a probe that was trained on all
    portions before it: bits = counts[0] log2(classes) + sum(losses) / ln 2.

    Args:
        losses: Float array `[portions - 1, ...]`. For each portion but the first, the sum of the cross-entropy of its
            labels in nats.
        counts: List of integers. Number of labels in each portion, without those of the portions before it.
        num_classes: Integer. Number of classes.

    Returns:
        `DescriptionLength`, whose values have the shape of a row of `losses`.

    Raises:
        ValueError: If there is not one loss for each portion but the first, or fewer than two classes.

    Example:
    ```python
    keras_transfer.analysis.description_length([12.0, 20.0], [10, 30, 60], num_classes=4).compression
    ```

    Source: Voita and Titov 2020, https://arxiv.org/abs/2003.12298, section 2.2.
    """
    losses = np.asarray(losses, "float64")
    rule = f"`losses` must have {len(counts) - 1} values, one for each portion but the first."
    expect(len(losses) == len(counts) - 1, rule, losses=len(losses))
    first, nats = counts[0] * np.log2(num_classes), losses.sum(axis=0)
    bits, uniform = first + nats / np.log(2), sum(counts) * np.log2(num_classes)
    return DescriptionLength(bits, (first + nats) / KBIT, float(uniform), uniform / bits)


def portions_of(items, seed=0):
    """Returns items in a random order of their sentences, and the numbers of items at which the portions end."""
    sentences, which = np.unique(items.sentences, return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(sentences))[which]
    order = np.argsort(rank, kind="stable")
    cuts = np.unique(np.maximum((np.array(PORTIONS) * len(sentences)).round().astype(int), 1))
    return items.some(order), np.searchsorted(rank[order], cuts)


def code_lengths(bank, items, validation, statistics, options, step):
    """Returns the `DescriptionLength` of the labels of items in each layer, for a bank of one member."""
    items, ends = portions_of(items)
    validation, losses = validation.some(slice(VALIDATION_ITEMS)), []
    for start, end in itertools.pairwise(ends):
        train(bank, items.some(slice(start)), validation, statistics, [0], **options, step=step)
        losses.append(answers(bank, items.some(slice(start, end)), options["batch_size"])["loss"][:, :, 0].sum(axis=0))
    return description_length(losses, np.diff(ends, prepend=0), bank.classes)


def code_steps(items, options):
    """Returns the number of steps of `code_lengths`."""
    return sum(steps_of(end, options["epochs"], options["batch_size"]) for end in portions_of(items)[1][:-1])


def frequent_labels(keys, labels, asked):
    """Returns the most frequent label of each key in `asked` among `keys`, and of all labels for an unknown key."""
    counts = defaultdict(Counter)
    for key, label in zip(keys, labels):
        counts[key][label] += 1
    [(other, _)] = Counter(labels).most_common(1)
    found = {key: own.most_common(1)[0][0] for key, own in counts.items()}
    return [found.get(key, other) for key in asked]
