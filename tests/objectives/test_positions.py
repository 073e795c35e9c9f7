"""The objectives of MASS and XLM, whose rows come with positions, hide what they should."""

import numpy as np
from scipy import stats

from keras_transfer.objectives import SpanPrediction, TranslationMasking
from tests.errors import check_errors

MASK, SIZE = 4, 1000
TOKENS = {"mask_id": MASK, "vocabulary_size": SIZE, "special_ids": [0, 1, 2, 3, 4]}


def test_the_decoder_reads_the_token_before_each_target():
    row = np.arange(10, 31)
    [source], [previous], [target], [positions] = SpanPrediction(mask_token_rate=1.0, random_token_rate=0.0).rewrite(
        [row], np.random.default_rng(0), **TOKENS
    )
    assert len(target) == 10 and (np.diff(positions) == 1).all()
    np.testing.assert_array_equal(target, row[positions])
    np.testing.assert_array_equal(previous, row[positions - 1])
    np.testing.assert_array_equal(np.flatnonzero(source == MASK), positions)
    np.testing.assert_array_equal(np.delete(source, positions), np.delete(row, positions))


def test_all_places_of_a_span_are_equally_likely():
    objective, random = SpanPrediction(), np.random.default_rng(0)
    firsts = np.bincount([objective.draw(12, random)[0] for _ in range(10_000)])
    assert firsts[0] == 0 and len(firsts) == 8 and stats.chisquare(firsts[1:]).pvalue > 0.01
    assert [len(objective.draw(length, random)) for length in range(5)] == [0, 0, 0, 1, 1]


def test_each_block_has_a_span_at_any_of_its_places():
    objective, random = SpanPrediction(0.5, block_length=4), np.random.default_rng(0)
    positions = np.stack([objective.draw(11, random) for _ in range(10_000)]) - 1
    assert (positions // 4 == [0, 0, 1, 1, 2]).all()
    _, counts = np.unique(positions[:, [0, 2, 4]] % 4, axis=0, return_counts=True)
    assert len(counts) == 3 * 3 * 2 and stats.chisquare(counts).pvalue > 0.01


def test_hidden_tokens_are_masks_random_tokens_or_the_same():
    row = np.arange(10, 22)
    sources, _, targets, positions = SpanPrediction().rewrite([row] * 10_000, np.random.default_rng(0), **TOKENS)
    hidden = np.take_along_axis(np.stack(sources), np.stack(positions), axis=1)
    assert_kinds(hidden.ravel(), np.concatenate(targets))


def assert_kinds(hidden, before):
    """80% are masks, 10% are the same, and 10% are any of the ordinary tokens, which may be the same."""
    counts = [(hidden == MASK).sum(), (hidden == before).sum()]
    same = 0.1 + 0.1 / (SIZE - 5)
    expected = np.array([0.8, same, 0.2 - same]) * len(hidden)
    assert stats.chisquare([*counts, len(hidden) - sum(counts)], expected).pvalue > 0.01 and (hidden >= MASK).all()


def joined(text, translation, count):
    """The inputs of a text and its translation, as often as `count` says, in front of padding."""
    rows = {"token_ids": [*text, *translation, 0], "padding_mask": [1] * len(text + translation) + [0]}
    rows["language_ids"] = [3] * len(text) + [7] * len(translation) + [0]
    return {name: np.array([row] * count) for name, row in rows.items()}


def test_tokens_of_both_texts_are_hidden_with_the_same_probability():
    given = joined([2, 10, 11, 12, 3], [2, 20, 21, 3], 10_000)
    inputs, targets = TranslationMasking(0.3)(given, np.random.default_rng(0), **TOKENS)
    assert inputs["positions"][0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0]
    assert inputs["language_ids"] is given["language_ids"] and inputs["padding_mask"] is given["padding_mask"]
    used = inputs["mask_positions"] >= 0
    assert used.any(axis=0).all() and (used == (targets >= 0)).all()
    row, places = np.nonzero(used)[0], inputs["mask_positions"][used]
    counts = np.bincount(places, minlength=9)
    assert counts[[0, 4, 5, 8]].sum() == 0
    chosen = counts[[1, 2, 3, 6, 7]]
    assert ((chosen - 3000) ** 2 / 2100).sum() < stats.chi2.isf(0.01, 5)
    numbers = np.bincount(used.sum(axis=1), minlength=6)
    assert stats.chisquare(numbers, stats.binom.pmf(np.arange(6), 5, 0.3) * 10_000).pvalue > 0.01
    np.testing.assert_array_equal(targets[used], given["token_ids"][row, places])
    assert_kinds(inputs["token_ids"][row, places], targets[used])


def test_without_special_ids_every_token_but_the_first_may_be_hidden():
    given = joined([2, 10, 3], [2, 20, 3], 200)
    inputs, _ = TranslationMasking(0.5)(given, np.random.default_rng(0), MASK, SIZE)
    assert np.unique(inputs["mask_positions"]).tolist() == [-1, 1, 2, 3, 4, 5]


test_mistakes_are_errors = check_errors(
    (lambda: SpanPrediction(mask_token_rate=0.95), "must not exceed 1 together"),
    (
        lambda: TranslationMasking()({"token_ids": np.ones((1, 2), int)}, np.random.default_rng(0), MASK, SIZE),
        "`inputs` must have `padding_mask`",
    ),
)
