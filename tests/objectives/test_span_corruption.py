"""T5's spans and prefixes have the lengths and places that they should, and a sentinel stands for each span."""

import collections
import itertools

import numpy as np
import pytest
from scipy import stats

from keras_transfer.objectives import PrefixLM, SequenceAutoencoder, SpanCorruption
from tests.errors import check_errors

SENTINELS = [99, 98, 97, 96]


def segments(total, count):
    """All ways to divide `total` tokens into `count` spans."""
    cuts = itertools.combinations(range(1, total), count - 1)
    return [tuple(np.diff([0, *chosen, total])) for chosen in cuts]


def test_the_source_and_the_target_complement_each_other():
    row = np.arange(10, 22)
    [source], [target] = SpanCorruption(0.5, mean_span_length=2.0).rewrite([row], np.random.default_rng(0), SENTINELS)
    np.testing.assert_array_equal(source[np.isin(source, SENTINELS)], SENTINELS[:3])
    np.testing.assert_array_equal(target[np.isin(target, SENTINELS)], SENTINELS[:3])
    others, noise = (np.split(part, np.flatnonzero(np.isin(part, SENTINELS))) for part in (source, target))
    joined = np.concatenate([part for pair in zip(others, noise[1:]) for part in pair])
    np.testing.assert_array_equal(joined[joined < 90], row)


@pytest.mark.parametrize("side", ["noise", "others"])
def test_all_lengths_and_places_of_spans_are_equally_likely(side):
    objective, random = SpanCorruption(0.4, mean_span_length=2.0), np.random.default_rng(0)
    assert objective.counts(15) == (6, 3)
    found = collections.Counter()
    for _ in range(10_000):
        mask = objective.draw(15, random)
        cuts = np.flatnonzero(np.diff(mask)) + 1
        lengths = tuple(np.diff([0, *cuts, 15]))
        assert not mask[0] and mask[-1] and len(lengths) == 6
        found[lengths[1::2] if side == "noise" else lengths[::2]] += 1
    expected = segments(6 if side == "noise" else 9, 3)
    assert set(found) == set(expected)
    assert stats.chisquare([found[lengths] for lengths in expected]).pvalue > 0.01


def test_short_texts_are_not_changed_or_have_one_span():
    objective, random = SpanCorruption(), np.random.default_rng(0)
    sources, targets = objective.rewrite([[], [5], [5, 6]], random, SENTINELS)
    assert [part.tolist() for part in sources] == [[], [5], [5, 99]]
    assert [part.tolist() for part in targets] == [[], [99], [99, 6]]


@pytest.mark.parametrize("density", [0.15, 0.9])
def test_no_source_or_target_is_longer_than_it_may_be(density):
    objective, random = SpanCorruption(density, mean_span_length=1.0), np.random.default_rng(0)
    for length in range(1, 60):
        sources, targets = objective.rewrite(
            [np.arange(size) for size in range(1, length + 1)], random, np.arange(100, 200)
        )
        for parts, longest in zip((sources, targets), objective.max_lengths(length), strict=True):
            assert max(map(len, parts)) <= longest <= max(map(len, parts)) + 1


def test_a_prefix_ends_anywhere_with_the_same_probability():
    objective, row = PrefixLM(), np.arange(11)
    sources, targets = objective.rewrite([row] * 10_000, np.random.default_rng(0))
    for source, target in zip(sources[:20], targets[:20], strict=True):
        np.testing.assert_array_equal(np.concatenate([source, target]), row)
    counts = np.bincount([len(source) for source in sources], minlength=11)
    assert counts[0] == 0 and stats.chisquare(counts[1:]).pvalue > 0.01
    assert objective.max_lengths(11) == (10, 10)
    [short], [rest] = objective.rewrite([[7]], np.random.default_rng(0))
    assert short.tolist() == [] and rest.tolist() == [7]
    lengths = [len(source) for source in PrefixLM(0.25).rewrite([row] * 100, np.random.default_rng(0))[0]]
    assert (min(lengths), max(lengths)) == (5, 10) and PrefixLM(0.25).max_lengths(11) == (10, 6)


def test_an_autoencoder_writes_what_it_reads():
    rows = [np.arange(5), np.arange(3)]
    for found in SequenceAutoencoder().rewrite(rows, np.random.default_rng(0)):
        for row, expected in zip(found, rows, strict=True):
            np.testing.assert_array_equal(row, expected)
    assert SequenceAutoencoder().max_lengths(5) == (5, 5)


test_mistakes_are_errors = check_errors(
    (
        lambda: SpanCorruption().rewrite([np.arange(200)], np.random.default_rng(0), SENTINELS),
        "10 spans ... 4 sentinels",
    ),
    (
        lambda: SpanCorruption().rewrite([[1.5, 2.0]], np.random.default_rng(0), SENTINELS),
        "integers. Received: [1.5, 2.0] at",
    ),
)
