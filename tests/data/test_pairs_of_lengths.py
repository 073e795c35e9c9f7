"""Where Keras compiles a step for each shape, each length of texts has one length of labels."""

import itertools

import numpy as np

from keras_transfer.data.batching import Batches, Contents
from keras_transfer.data.planning import Options, choose_pairs


def lengths(count, longest, seed=0):
    """Lengths of texts, and of labels that are a third as long, more or less."""
    random = np.random.default_rng(seed)
    real = random.integers(1, longest + 1, count)
    return real, np.clip(real // 3 + random.integers(-5, 6, count), 1, longest // 2)


def padded(pairs, real, of_labels):
    """The tokens of all rows with their padding, if each has the first pair that it fits into."""
    fits = [(real <= first) & (of_labels <= second) for first, second in pairs]
    assert fits[-1].all()
    return np.array([sum(pair) for pair in pairs])[np.argmax(fits, axis=0)].sum()


def test_the_chosen_pairs_have_the_least_padding():
    for seed in range(3):
        real, of_labels = lengths(60, 32, seed)
        found = [*zip(*choose_pairs(real, of_labels, 32, 16), strict=True)]
        chains = [
            [*zip([*firsts, 32], [*seconds, 16], strict=True)]
            for count in range(4)
            for firsts in itertools.combinations([8, 16, 24], count)
            for seconds in itertools.combinations_with_replacement([8, 16], count)
        ]
        assert padded(found, real, of_labels) == min(padded(chain, real, of_labels) for chain in chains)


def test_many_lengths_have_at_most_six_pairs():
    real, of_labels = lengths(5000, 500)
    firsts, seconds = choose_pairs(real, of_labels, 500, 250)
    assert len(firsts) == len(seconds) == 6 and (firsts[-1], seconds[-1]) == (500, max(of_labels) // -8 * -8)
    assert sorted(set(firsts)) == firsts and sorted(seconds) == seconds
    assert choose_pairs(np.array([3]), np.array([2]), 4, 2) == ([4], [2])


def test_few_lengths_of_texts_have_one_length_of_labels_each():
    real, of_labels = lengths(200, 64)
    place = np.arange(64)
    mask = (place < real[:, None]).astype("int32")
    labels = np.where(place[:32] < of_labels[:, None], 1, -1)
    options = Options(8, tuple(np.unique(real).tolist()), shuffle=True)
    contents = Contents(real_labels=of_labels)
    data = Batches({"token_ids": mask, "padding_mask": mask}, labels, None, options, 0, contents)
    few = data.few_lengths()
    assert few.few_lengths() is few and len(few.options.lengths) <= 6
    for each in (few, few.replace(shuffle=False)):
        shapes = {(inputs["token_ids"].shape[1], labels.shape[1]) for inputs, labels in each}
        assert shapes <= {*zip(few.options.lengths, few.options.label_lengths, strict=True)}
        for index, (_, rows) in enumerate(each.planned()):
            inputs, found = each[index]
            np.testing.assert_array_equal(inputs["padding_mask"].sum(axis=1), real[rows])
            np.testing.assert_array_equal((found == 1).sum(axis=1), of_labels[rows])
    assert all(labels.shape[1] == of_labels[rows].max() for (_, labels), (_, rows) in zip(data, data.planned()))
