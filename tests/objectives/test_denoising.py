"""BART's noise has the lengths and places that it should, and each kind can be used alone."""

import collections
import itertools

import numpy as np
import pytest
from scipy import stats

from keras_transfer.objectives import Denoising
from keras_transfer.objectives.denoising import poisson_probabilities
from keras_transfer.objectives.noise import find_sentences, fit_lengths

MASK, STOP, SIZE = 4, 5, 1000
TOKENS = {"mask_id": MASK, "vocabulary_size": SIZE, "special_ids": [0, 1, 2, 3, 4], "stop_ids": [STOP]}
ALONE = {"mask_rate": 0.0, "permutation_rate": 0.0, "random_token_rate": 0.0}


def noised(row, count=1, **options):
    sources, targets = Denoising(**{**ALONE, **options}).rewrite([row] * count, np.random.default_rng(0), **TOKENS)
    assert all(target.tolist() == list(row) for target in targets)
    return sources


def test_lengths_of_spans_are_those_of_a_poisson_distribution():
    probabilities = poisson_probabilities(3.5)
    np.testing.assert_allclose(probabilities, stats.poisson.pmf(np.arange(len(probabilities)), 3.5), atol=1e-7)
    lengths, insertions = Denoising().draw_lengths(35_000, np.random.default_rng(0))
    assert lengths.sum() == 35_000 and lengths.min() == 1
    counts = np.bincount(np.minimum(lengths[:-1], 10))  # The last one is cut.
    counts[0] = insertions
    expected = np.append(probabilities[:10], probabilities[10:].sum()) * counts.sum()
    assert 9_500 < counts.sum() < 10_500 and stats.chisquare(counts, expected).pvalue > 0.01


def test_places_of_spans_are_equally_likely():
    row = np.arange(10, 22)
    sources = noised(row, 10_000, mask_rate=0.08, poisson_mean=None, whole_words=False)
    places = [np.flatnonzero(source == MASK) for source in sources]
    assert all(len(place) == 1 for place in places)
    assert stats.chisquare(np.bincount(np.concatenate(places), minlength=12)).pvalue > 0.01


def test_all_places_of_two_deletions_are_equally_likely():
    row = np.arange(10, 22)
    sources = noised(row, 10_000, mask_rate=0.16, poisson_mean=None, whole_words=False, replace_length=0)
    kept = np.zeros((10_000, 12), bool)
    np.put_along_axis(kept, np.stack(sources) - 10, True, axis=1)
    counts = collections.Counter(map(tuple, np.nonzero(~kept)[1].reshape(-1, 2)))
    pairs = list(itertools.combinations(range(12), 2))
    assert counts.keys() == set(pairs) and stats.chisquare([counts[pair] for pair in pairs]).pvalue > 0.01


def test_sentences_are_permuted_with_equal_probability():
    row = np.array([10, STOP, 11, 12, STOP, STOP, 13, 14])
    np.testing.assert_array_equal(find_sentences(row == STOP), [2, 5, 8])
    sources = noised(row, 10_000, permutation_rate=1.0)
    orders, counts = np.unique([source.tolist() for source in sources], axis=0, return_counts=True)
    assert len(orders) == 6 and stats.chisquare(counts).pvalue > 0.01
    assert np.sort(orders, axis=1).tolist() == [np.sort(row).tolist()] * 6


def test_texts_begin_at_every_token_with_the_same_probability():
    sources = noised(np.arange(10, 18), 10_000, rotation_rate=1.0)
    firsts = np.bincount([source[0] - 10 for source in sources])
    # BART draws one more place, at which a text begins with its first token, as it does without rotation.
    assert stats.chisquare(firsts, np.array([2, 1, 1, 1, 1, 1, 1, 1]) * 10_000 / 9).pvalue > 0.01
    assert all((np.diff(source) % 8 == 1).all() for source in sources[:20])


def test_masks_and_random_tokens_are_inserted():
    row = np.arange(10, 18)
    sources = noised(row, 500, insertion_rate=0.2, random_token_rate=0.5)
    for source in sources:
        added = source[~np.isin(source, row) | (source == MASK)]
        assert len(source) == 10 and (source == MASK).sum() == 1 and len(added) in (1, 2) and (source > 3).all()
    first = np.bincount([np.flatnonzero(source == MASK)[0] for source in sources], minlength=10)
    assert stats.chisquare(first).pvalue > 0.01


def test_spans_become_one_mask_no_mask_or_a_mask_for_each_token():
    row = np.arange(10, 40)
    infilled, deleted, masked = (
        noised(row, 50, mask_rate=0.3, replace_length=replace, poisson_mean=6.0) for replace in (1, 0, -1)
    )
    assert all(1 <= (source == MASK).sum() < 9 for source in infilled)
    assert all((np.diff(source[source != MASK]) > 0).all() for source in infilled)
    lengths = [len(source[source != MASK]) for source in deleted]
    assert min(lengths) >= 21 and np.mean(lengths) < 25
    assert all((source[source != MASK] >= 10).all() and (source == MASK).sum() <= 11 for source in masked)


def test_whole_words_are_hidden():
    starts = np.arange(SIZE) % 2 == 0  # Each word has two tokens.
    objective = Denoising(0.3, poisson_mean=None, replace_length=-1, permutation_rate=0.0, random_token_rate=0.0)
    sources, _ = objective.rewrite([np.arange(10, 30)] * 20, np.random.default_rng(0), **TOKENS, word_starts=starts)
    for source in sources:
        hidden = source == MASK
        assert hidden.sum() == 6 and (hidden[::2] == hidden[1::2]).all()


def test_lengths_are_cut_to_what_is_to_be_hidden():
    lengths, insertions = fit_lengths(np.array([0, 3, 0, 2, 7, 1]), 6)
    assert lengths.tolist() == [3, 2, 1] and insertions == 2


@pytest.mark.parametrize(
    "options", [{}, {"replace_length": -1}, {"insertion_rate": 0.3}, {"poisson_mean": 1.0}], ids=str
)
def test_hardly_any_source_is_longer_than_it_may_be(options):
    objective, random = Denoising(**options), np.random.default_rng(0)
    for length in (1, 3, 10, 100):
        sources, _ = objective.rewrite([np.arange(10, 10 + length)] * 300, random, **TOKENS)
        allowed, target = objective.max_lengths(length)
        assert np.mean([len(source) > allowed for source in sources]) < 0.01 and target == length
