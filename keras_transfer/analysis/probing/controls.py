"""What the score of a probe is compared with: a control task, the length of a description, and frequent labels."""

import itertools
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.analysis.probing.bank import answers, schedule, train

# Fractions of the sentences that are coded one after the other (Voita and Titov 2020, section 3.2.2).
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
VALIDATION_ITEMS = 4096  # They choose the epoch of each of many probes.


def control_labels(count, probabilities, seeds):
    """Returns random classes [count, seeds] of the different words, the labels of the control task of each seed.

    A probe can only learn them by remembering words (Hewitt and Liang 2019). They are as frequent as the real labels.
    """
    draws = (np.random.default_rng(seed).choice(len(probabilities), count, p=probabilities) for seed in seeds)
    return np.stack([*draws], axis=1)


class DescriptionLength(NamedTuple):
    """How many bits labels need in the online code, and in a uniform one.

    The authors' code adds bits of the first portion and nats of the others, in units of 1,024.
    """

    bits: Any
    authors_kbits: Any
    uniform_bits: float


def description_length(losses, counts, num_classes):
    """Returns the `DescriptionLength` of labels, from the losses in nats of probes trained on growing portions.

    The first portion is coded with equal probabilities, and each of the others by a probe that was trained on all
    portions before it: bits = counts[0] log2(classes) + sum(losses) / ln 2.

    Source: Voita and Titov 2020, https://arxiv.org/abs/2003.12298, section 2.2.
    """
    first, nats = counts[0] * np.log2(num_classes), np.sum(losses, axis=0, dtype="float64")
    return DescriptionLength(first + nats / np.log(2), (first + nats) / 1024, sum(counts) * np.log2(num_classes))


def portions_of(items):
    """Returns items in a random order of their sentences, and the numbers of items at which the portions end."""
    sentences, which = np.unique(items.sentences, return_inverse=True)
    rank = np.random.default_rng(0).permutation(len(sentences))[which]
    order = np.argsort(rank, kind="stable")
    cuts = np.unique(np.maximum((np.array(PORTIONS) * len(sentences)).round().astype(int), 1))
    return items.some(order), np.searchsorted(rank[order], cuts)


def code_lengths(bank, items, validation, statistics, options, step):
    """Returns the `DescriptionLength` of the labels of items in each layer, for a bank of one member."""
    items, ends = portions_of(items)
    validation, losses = validation.some(slice(VALIDATION_ITEMS)), [np.zeros(len(bank.probes))]
    for start, end in itertools.pairwise(ends):
        train(bank, items.some(slice(start)), validation, statistics, [0], **options, step=step)
        losses.append(answers(bank, items.some(slice(start, end)), options["batch_size"])["loss"][:, :, 0].sum(axis=0))
    return description_length(losses, np.diff(ends, prepend=0), bank.classes)


def code_steps(items, options):
    """Returns the number of steps of `code_lengths`."""
    return sum(schedule(end, options["epochs"], options["batch_size"])[-1] for end in portions_of(items)[1][:-1])


def frequent_labels(items, asked):
    """Returns the labels [asked, ...] that the key of each item has most often among others, or that all have."""
    real = items.labels if items.of_spans else items.labels[:, :1]  # The others are of control tasks, or equal.
    labels, counts = [*map(tuple, real.tolist())], defaultdict(Counter)
    for key, label in zip(items.keys.tolist(), labels):
        counts[key][label] += 1
    [(other, _)] = Counter(labels).most_common(1)
    found = {key: own.most_common(1)[0][0] for key, own in counts.items()}
    return np.array([found.get(key, other) for key in asked.keys.tolist()])
