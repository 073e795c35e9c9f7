"""`PermutationLanguageModel` chooses targets and an order as XLNet's code does, and lets no target see itself."""

import itertools
import json
import types

import numpy as np
import pytest
from scipy import stats

from keras_transfer.objectives import PermutationLanguageModel
from keras_transfer.objectives.permutation_language_model import choose_spans, order_tokens
from keras_transfer.text import BertPreprocessor
from tests.errors import check_errors
from tests.samples import REFERENCES

ORIGINAL = json.loads((REFERENCES / "permutations.json").read_text("utf-8"))
SPECIAL, SIZE, LENGTH = [0, 1, 2, 3, 4], 1000, 512
STARTS = np.arange(SIZE) % 3 != 0
RARE = 1e-6  # A smaller p-value is a defect; the seeds are fixed.


def hidden_from(order, targets):
    """Returns the `perm_mask` [tokens, tokens] of an order: 1 where a token, [i], does not see another, [j]."""
    return np.where(targets[:, None], order[None] >= order[:, None], order[None] > order[:, None])


@pytest.fixture(scope="module")
def rows():
    """A quarter of a million tokens, with a special one in the middle and at the end, and padding."""
    ids = np.random.default_rng(0).integers(5, SIZE, (512, LENGTH), dtype="int32")
    ids[:, 200], ids[:, 500], ids[:, 501:] = 4, 3, 0
    return {"token_ids": ids, "padding_mask": (np.arange(LENGTH) < 501) * np.ones((512, 1), "int32")}


@pytest.fixture(scope="module")
def made(rows):
    inputs, targets = PermutationLanguageModel()(rows, np.random.default_rng(1), SPECIAL, STARTS)
    chosen = np.zeros((512, LENGTH + 1), bool)
    np.put_along_axis(chosen, inputs["mask_positions"], True, axis=1)  # -1 is the column that is left out.
    return inputs, targets, chosen[:, :LENGTH]


# === The original ===


@pytest.mark.parametrize("index", range(16))
def test_given_the_same_draws_the_targets_are_those_of_the_original(index):
    case = ORIGINAL["spans"][index]
    starts, singles = np.array(case["starts"]), case["singles"]
    order = np.array([*dict.fromkeys(singles), *(set(range(len(starts))) - set(singles))], int)
    draws = case["lengths"], [*case["before"], 0.0]
    found = choose_spans(np.ones(len(starts), bool), starts, *draws, order, 1 / case["alpha"], case["count"])
    assert np.flatnonzero(found).tolist() == case["chosen"] and len(case["chosen"]) == case["count"]


@pytest.mark.parametrize("index", range(6))
def test_given_the_same_permutations_tokens_see_what_they_see_in_the_original(index):
    case = ORIGINAL["orders"][index]
    count, reuse = len(case["perm_mask"]), case["reuse"]
    draws, starts = np.zeros(count), [0, reuse] if reuse else [0]  # Only the draws of the first blocks count.
    for first, ranks in zip(starts, case["ranks"]):
        draws[first : first + len(ranks)] = np.array(ranks) / len(ranks)
    targets, special = (np.isin(np.arange(len(draws)), case[kind]) for kind in ("targets", "special"))
    real = np.ones((1, len(draws)), bool)
    [order] = order_tokens(draws[None], (~targets & ~special)[None], real, reuse or None, case["size"])
    expected = np.array([list(map(int, row)) for row in case["perm_mask"]])
    np.testing.assert_array_equal(hidden_from(order, targets), expected)


# === What is predicted ===


def test_a_sixth_of_the_tokens_are_targets_and_no_special_one(rows, made):
    inputs, targets, chosen = made
    assert targets.shape == inputs["mask_positions"].shape == (512, 86)
    assert (chosen.sum(axis=1) == round(499 / 6)).all()
    assert chosen.sum() / (512 * 499) == pytest.approx(1 / 6, abs=0.001)
    assert not chosen[np.isin(rows["token_ids"], SPECIAL)].any()
    np.testing.assert_array_equal(targets[targets >= 0], rows["token_ids"][chosen])
    used = inputs["mask_positions"]
    assert (np.diff(used)[used[:, 1:] >= 0] > 0).all() and ((used >= 0) == (targets >= 0)).all()
    np.testing.assert_array_equal(inputs["token_ids"], rows["token_ids"])


def test_spans_have_one_to_five_tokens_as_often_as_in_the_original():
    lengths = PermutationLanguageModel().draw_lengths((100_000,), np.random.default_rng(2))
    expected = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    expected *= len(lengths) / expected.sum()
    assert stats.chisquare(np.bincount(lengths, minlength=6)[1:], expected).pvalue > RARE


def test_the_spans_of_rows_have_the_lengths_that_were_drawn():
    # Without words and single tokens, spans of whole contexts do not touch: a run is a span.
    objective, random = PermutationLanguageModel(0.02, starts="tokens"), np.random.default_rng(3)
    every, found = np.ones(4096, bool), np.zeros(6)
    for _ in range(40):
        lengths, before = objective.draw_lengths((200,), random), random.random(200)
        chosen = choose_spans(every, every, lengths.tolist(), before.tolist(), np.zeros(0, int), 0.02, 4096)
        edges = np.flatnonzero(np.diff(np.pad(chosen.astype(int), 1)))
        runs = edges[1::2] - edges[::2]
        assert (runs == lengths[: len(runs)]).all() and len(runs) > 10
        found += np.bincount(runs[:10], minlength=6)  # The last ones of a row are short ones more often.
    expected = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert stats.chisquare(found[1:], expected * found.sum() / expected.sum()).pvalue > RARE


def test_spans_begin_with_words_and_end_before_the_last_token():
    starts = np.zeros(10, bool)
    starts[[0, 3, 8]] = True
    for skipped, expected in enumerate([[0, 1], [3, 4], [3, 4], [3, 4], [], []]):
        place = (skipped + 0.5) / 6
        found = choose_spans(np.ones(10, bool), starts, [2], [place], np.zeros(0, int), 1 / 3, 2)
        assert np.flatnonzero(found).tolist() == expected


def test_words_and_punctuation_begin_spans():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s", "##,", ",", "##e."]
    preprocessor = BertPreprocessor(words, sequence_length=8)
    found = PermutationLanguageModel().tokens(preprocessor)
    assert found["special_ids"] == SPECIAL
    assert [word for word, begins in zip(words, found["word_starts"]) if begins][-3:] == ["film", "##,", ","]
    assert list(PermutationLanguageModel(starts="tokens").tokens(preprocessor)) == ["special_ids"]


# === The order ===


def test_no_target_sees_itself_or_later_ones_and_all_see_the_given_tokens(rows, made):
    inputs, _, chosen = made
    order, special = inputs["factorization_order"], np.isin(rows["token_ids"], SPECIAL[1:])
    real = rows["padding_mask"] == 1
    assert (order[~chosen & real & ~special] == 0).all() and (order[~real] == 0).all()
    for row in range(512):
        later = order[row][chosen[row] | special[row]]
        assert len(set(later)) == len(later) and later.min() > 0


def test_all_orders_of_the_targets_are_equally_likely():
    ids = np.tile([[7, 8, 9, 10, 11, 12, 3]], (6000, 1))
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    made, targets = PermutationLanguageModel(1 / 2)(inputs, np.random.default_rng(4), SPECIAL)
    assert (targets[:, :3] >= 0).all() and (targets[:, 3] == -1).all()
    orders = np.argsort(np.take_along_axis(made["factorization_order"], made["mask_positions"][:, :3], 1), axis=1)
    counts = [(orders == kind).all(axis=1).sum() for kind in itertools.permutations(range(3))]
    assert sum(counts) == 6000 and stats.chisquare(counts).pvalue > RARE


def test_a_reused_start_sees_nothing_behind_it_and_has_its_share_of_targets():
    inputs = {"token_ids": np.arange(5, 29)[None], "padding_mask": np.ones((1, 24), int)}
    objective = PermutationLanguageModel(1 / 3, reuse_length=12, permutation_size=4)
    made, targets = objective(inputs, np.random.default_rng(5), SPECIAL)
    order, positions = made["factorization_order"][0], made["mask_positions"][0]
    assert targets.shape == (1, 8) and (positions < 12).sum() == (positions >= 12).sum() == 4
    assert order[:12].max() < order[12:].min()
    chosen = np.isin(np.arange(24), positions)
    assert (order[:12][~chosen[:12]] == 0).all() and (order[12:][~chosen[12:]] == 13).all()
    for first in range(0, 24, 4):  # A permutation follows the one before it.
        before, here = order[:first][chosen[:first]], order[first : first + 4][chosen[first : first + 4]]
        assert not len(before) or not len(here) or before.max() < here.min()


def test_a_token_is_always_given():
    for count, expected in ((1, 0), (2, 1), (3, 1), (9, 2)):
        ids = np.array([[*range(5, 5 + count), 4, 3, *[0] * (9 - count)]])
        inputs = {"token_ids": ids, "padding_mask": (ids > 0).astype(int)}
        made, targets = PermutationLanguageModel(1 / 6)(inputs, np.random.default_rng(count), SPECIAL)
        assert (targets >= 0).sum() == expected and targets.shape == (1, 2)
        assert ((made["factorization_order"] == 0) & (ids > 4)).any()


def test_the_random_numbers_decide(rows):
    few = {name: values[:4] for name, values in rows.items()}
    first, same, other = (PermutationLanguageModel()(few, np.random.default_rng(seed), SPECIAL) for seed in (0, 0, 1))
    for name in ("mask_positions", "factorization_order"):
        np.testing.assert_array_equal(first[0][name], same[0][name])
        assert (first[0][name] != other[0][name]).any()


IDS = np.array([[5, 6, 7]], "int64")


def make(word_starts=None, **inputs):
    return PermutationLanguageModel()(inputs, np.random.default_rng(0), SPECIAL, word_starts)


test_what_is_impossible_is_an_error = check_errors(
    (lambda: make(token_ids=IDS), "must have `padding_mask`. Received: inputs with the keys ['token_ids']"),
    (lambda: make(token_ids=IDS[0], padding_mask=IDS[0]), "integers [batch, length] ... int64 of shape (3,)"),
    (lambda: make(token_ids=IDS, padding_mask=IDS[:, :2]), "int64 of shape (1, 3) and int64 of shape (1, 2)"),
    (lambda: make(token_ids=IDS[:, :0], padding_mask=IDS[:, :0]), "length of at least 1. ... of shape (1, 0)"),
    (lambda: make(STARTS[:7], token_ids=IDS, padding_mask=IDS), "for ids up to 7. Received: an array of shape (7,)"),
    (
        lambda: PermutationLanguageModel().tokens(
            types.SimpleNamespace(
                special_ids=[],
                tokenizer=types.SimpleNamespace(token_bytes=lambda: [b"a"], word_starts=lambda: [False]),
                vocabulary_size=1,
            )
        ),
        "say where a word begins",
    ),
)
