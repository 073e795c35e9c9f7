"""`TokenMasking` of words, n-grams and spans hides whole words, as often and as long as their papers say."""

import numpy as np
import pytest
from scipy import stats

from keras_transfer.objectives import Denoising, TokenMasking
from keras_transfer.objectives.word_choice import choose_words, words_of
from keras_transfer.text import (
    BertPreprocessor,
    ByteBPETokenizer,
    GPTTokenizer,
    Packing,
    SentencePieceBPETokenizer,
    TokenPreprocessor,
)
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.errors import check_errors

MASK, SIZE, LENGTH = 4, 1000, 512
STARTS = np.arange(SIZE) % 3 != 0  # A word has two thirds of a chance to end after each token.
TOKENS = {"mask_id": MASK, "special_ids": [0, 1, 2, 3, 4], "vocabulary_size": SIZE, "word_starts": STARTS}
UNITS = ["words", "ngrams", "spans"]
RARE = 1e-6  # A smaller p-value is a defect; the seeds are fixed.


@pytest.fixture(scope="module")
def rows():
    """A million tokens, in rows with [CLS], [SEP] in the middle and at the end, and padding."""
    random = np.random.default_rng(0)
    ids = random.integers(5, SIZE, (2048, LENGTH), dtype="int32")
    ids[:, 0], ids[:, 200], ids[:, 500], ids[:, 501:] = 2, 3, 3, 0
    return {"token_ids": ids, "padding_mask": (np.arange(LENGTH) < 501) * np.ones((2048, 1), "int32")}


@pytest.fixture(scope="module", params=UNITS)
def hidden(request, rows):
    inputs, targets = TokenMasking(units=request.param)(rows, np.random.default_rng(1), **TOKENS)
    chosen = np.zeros((2048, LENGTH + 1), bool)
    np.put_along_axis(chosen, inputs["mask_positions"], True, axis=1)  # -1 is the column that is left out.
    return request.param, inputs["token_ids"], targets, chosen[:, :LENGTH]


def test_words_are_hidden_whole_and_a_word_ends_at_special_tokens(rows, hidden):
    ids, (_, _, targets, chosen) = rows["token_ids"], hidden
    special = np.isin(ids, TOKENS["special_ids"])
    assert not chosen[special].any() and (targets == -1).any()
    continues = ~STARTS[ids] & ~special & ~np.roll(special, 1, axis=1)
    assert (chosen == np.roll(chosen, 1, axis=1))[continues].all() and continues.sum() > 200_000
    np.testing.assert_array_equal(targets[targets >= 0], ids[chosen])


def test_fifteen_percent_of_a_million_tokens_are_hidden(hidden):
    _, _, targets, _ = hidden
    budget = round(0.15 * 498)
    used = (targets >= 0).sum(axis=1)
    assert targets.shape == (2048, np.ceil(0.15 * LENGTH)) and used.max() == budget
    # A word that is longer than the rest of the budget is passed over. Words of one token fill it.
    assert (used == budget).all()
    assert used.sum() / (2048 * 498) == pytest.approx(0.15, abs=0.001)


def test_most_are_masked_some_random_and_some_unchanged(rows, hidden):
    units, after, _, chosen = hidden
    before, after = rows["token_ids"][chosen], after[chosen]
    random = (after != MASK) & (after != before)
    count = np.array([(after == MASK).sum(), random.sum(), (after == before).sum()])
    same = 0.1 / (SIZE - 5)
    expected = len(after) * np.array([0.8, 0.1 - same, 0.1 + same])
    assert (after[random] >= 5).all()
    if units == "spans":  # All tokens of a span become the same, so that these counts vary more.
        np.testing.assert_allclose(count, expected, rtol=0.03)
    else:
        assert stats.chisquare(count, expected).pvalue > RARE


def test_all_tokens_of_a_span_become_masks_random_tokens_or_remain(rows):
    objective = TokenMasking(0.02, units="spans", mask_token_rate=0.5, random_token_rate=0.3)
    inputs, _ = objective(rows, np.random.default_rng(2), **TOKENS)
    ids, after, positions = rows["token_ids"], inputs["token_ids"], inputs["mask_positions"]
    kinds = []
    for row in range(2048):
        at = positions[row][positions[row] >= 0]
        parts = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        # The longest run is one span in most rows, the rest of the budget apart.
        longest = max(parts, key=len)
        if len(longest) > 2 and len(parts) < 3:
            masked, same = after[row, longest] == MASK, after[row, longest] == ids[row, longest]
            kinds.append(0 if masked.all() else 1 if same.all() else 2 if not (masked | same).any() else 3)
    counts = np.bincount(kinds, minlength=4)
    assert len(kinds) > 500 and counts[3] < 0.1 * len(kinds)  # Two spans that meet may differ.
    np.testing.assert_allclose(counts[:3] / counts[:3].sum(), [0.5, 0.2, 0.3], atol=0.08)


def test_every_word_is_equally_likely(rows):
    inputs = {"token_ids": np.tile(np.arange(6, 30, 3)[:, None] + [0, 1], (2000, 1, 1)).reshape(2000, 16)}
    inputs["padding_mask"] = np.ones((2000, 16), int)
    starts = np.arange(SIZE) % 3 == 0
    for units in UNITS[:2]:
        objective = TokenMasking(0.13, units=units)
        found, targets = objective(inputs, np.random.default_rng(0), **{**TOKENS, "word_starts": starts})
        assert (targets[:, :2] >= 0).all() and (targets[:, 2:] == -1).all()
        assert stats.chisquare(np.bincount(found["mask_positions"][:, 0], minlength=16)[::2]).pvalue > RARE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"units": "words"}, [1.0]),
        ({"units": "ngrams"}, np.array([6, 3, 2]) / 11),
        ({"units": "ngrams", "max_words": 2}, np.array([2, 1]) / 3),
        ({"units": "spans"}, stats.geom.pmf(np.arange(1, 11), 0.2) / stats.geom.cdf(10, 0.2)),
        ({"units": "spans", "max_words": 3}, stats.geom.pmf(np.arange(1, 4), 0.2) / stats.geom.cdf(3, 0.2)),
    ],
    ids=str,
)
def test_the_lengths_are_those_of_the_papers(options, expected):
    found = np.bincount(TokenMasking(**options).draw_lengths((100, 1000), np.random.default_rng(0)).ravel())
    assert found[0] == 0 and len(found) == len(expected) + 1
    assert len(expected) == 1 or stats.chisquare(found[1:], np.array(expected) * 1e5).pvalue > RARE


def test_spans_are_longer_than_words():
    inputs = {"token_ids": np.full((200, 400), 7), "padding_mask": np.ones((200, 400), int)}
    runs = {}
    for units in UNITS:
        found, targets = TokenMasking(units=units)(inputs, np.random.default_rng(0), **{**TOKENS, "word_starts": None})
        assert (targets >= 0).sum() == 200 * 60
        runs[units] = 1 / (np.diff(found["mask_positions"]) > 1).mean()
    assert runs["words"] < 1.3 < runs["ngrams"] < 2.3 < 3.5 < runs["spans"] < 5.5


def test_words_are_chosen_in_the_order_that_is_drawn_until_the_budget_is_spent():
    allowed = np.array([0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0], bool)
    starts = np.array([0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0], bool)
    words, of_token = words_of(allowed, starts)
    assert words.tolist() == [[1, 2], [2, 5], [5, 6], [7, 9], [9, 10]]
    assert of_token.tolist() == [0, 1, 1, 1, 2, 3, 3, 4]

    def spans(order, lengths, budget, joins=False):
        return choose_words(words, order, lengths, budget, joins)

    assert spans([1, 0, 2], [1, 1, 1], 4) == [1, 0, -1, -1, -1]
    assert spans([1, 3, 0], [1, 1, 1], 2) == [-1, -1, -1, 1, -1]  # The first does not fit.
    assert spans([2], [3], 9) == [-1, -1, 0, -1, -1]  # A special token is in between.
    assert spans([0], [3], 4) == [0, 0, -1, -1, -1]  # The third word does not fit.
    assert spans([1, 0], [1, 3], 9) == [-1, 0, -1, -1, -1]  # Overlapping n-grams are passed over.
    assert spans([1, 0], [1, 3], 9, joins=True) == [1, 0, 1, -1, -1]
    assert choose_words(np.zeros((0, 2), int), [], [], 3, False) == []


def test_a_row_without_ordinary_tokens_remains():
    inputs = {"token_ids": np.array([[2, 3, 0], [2, 6, 3]]), "padding_mask": np.array([[1, 1, 0], [1, 1, 1]])}
    found, targets = TokenMasking(units="words", mask_token_rate=1.0, random_token_rate=0.0)(
        inputs, np.random.default_rng(0), **TOKENS
    )
    assert targets.tolist() == [[-1], [6]] and found["token_ids"].tolist() == [[2, 3, 0], [2, 4, 3]]


# === Tokenizers ===


def preprocessor(tokenizer, special=("<s>", "</s>", "<pad>")):
    start, end, pad = special
    return TokenPreprocessor(tokenizer, Packing(start=[start], between=[end], end=[end], pad=pad))


def starts_of(preprocessor):
    starts = TokenMasking(units="words").tokens(preprocessor)["word_starts"]
    assert starts.shape == (preprocessor.vocabulary_size,)
    return [token for token, is_start in zip(preprocessor.vocabulary, starts) if is_start]


def test_word_piece_marks_what_continues_a_word():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", "."]
    assert starts_of(BertPreprocessor(words)) == [word for word in words if word != "##s"]


def test_byte_level_bpe_marks_what_begins_a_word():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = [*special, *byte_characters(), "th", "\u0120th"]
    merges = [("t", "h"), ("\u0120", "th")]
    tokenizer = ByteBPETokenizer(vocabulary, merges, unk_token="<unk>", mask_token="<mask>")
    # The bytes of white space, of which a space is the character \u0120 and a new line \u010a, begin a word.
    assert starts_of(preprocessor(tokenizer)) == [*map(chr, range(0x109, 0x10E)), "\u0120", "\u0120th"]


def test_sentencepiece_marks_what_begins_a_word():
    vocabulary = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "\u2581", "a", "b", "\u2581a", "."]
    options = {"merges": [("\u2581", "a")], "mask_token": "<mask>", "byte_fallback": False}
    tokenizer = SentencePieceBPETokenizer(vocabulary, **options)
    assert starts_of(preprocessor(tokenizer)) == ["\u2581", "\u2581a"]


def gpt():
    vocabulary = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "a", "b", "b</w>", "ab</w>"]
    return preprocessor(GPTTokenizer(vocabulary, [("a", "b</w>")], mask_token="<mask>"))


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: TokenMasking(max_words=3), "`max_words` requires `units='ngrams'` or ... max_words=3, units='tokens'"),
    (
        lambda: TokenMasking(units="words").tokens(gpt()),
        "say where a word begins ... Received: tokenizer=a GPTTokenizer",
    ),
    (
        lambda: Denoising(permutation_rate=0.0).tokens(gpt()),
        "say where a word begins ... Received: tokenizer=a GPTTokenizer",
    ),
)
