"""`TokenMasking` hides the tokens that its paper describes, and no others."""

import numpy as np
import pytest

from keras_transfer.objectives import TokenMasking
from tests.errors import check_errors

SPECIAL, MASK, SIZE = [0, 1, 2, 3, 4], 4, 1000


def texts(count=400, length=40, seed=0):
    """Rows of [CLS], ordinary tokens, [SEP] and padding."""
    random = np.random.default_rng(seed)
    ids, real = random.integers(5, SIZE, (count, length)), random.integers(3, length + 1, count)[:, None]
    place = np.arange(length)[None]
    ids = np.where(place == 0, 2, np.where(place == real - 1, 3, np.where(place >= real, 0, ids)))
    return {"token_ids": ids.astype("int32"), "padding_mask": (place < real).astype("int32")}


def hide(inputs, seed=0, **options):
    random = np.random.default_rng(seed)
    return TokenMasking(**options)(inputs, random, MASK, SPECIAL, SIZE)


def test_fifteen_percent_are_chosen_and_most_of_them_masked():
    inputs = texts()
    hidden, targets = hide(inputs)
    chosen, positions = targets >= 0, hidden["mask_positions"]
    ordinary = (inputs["token_ids"] >= 5).sum(axis=1)
    np.testing.assert_array_equal(chosen.sum(axis=1), np.maximum(np.round(0.15 * ordinary), 1))
    np.testing.assert_array_equal(positions >= 0, chosen)
    rows = np.nonzero(chosen)[0]
    before, after = (array["token_ids"][rows, positions[chosen]] for array in (inputs, hidden))
    np.testing.assert_array_equal(before, targets[chosen])
    count = chosen.sum()
    kinds = np.array([(after == MASK).sum(), (after == before).sum(), ((after != MASK) & (after != before)).sum()])
    expected = count * np.array([0.8, 0.1 + 0.1 / (SIZE - 5), 0.1 * (1 - 1 / (SIZE - 5))])
    assert ((kinds - expected) ** 2 / expected).sum() < 13.8  # chi-square, p = 0.001
    assert (after[after != MASK] >= 5).all()
    untouched = np.ones(inputs["token_ids"].shape, bool)
    untouched[rows, positions[chosen]] = False
    np.testing.assert_array_equal(hidden["token_ids"][untouched], inputs["token_ids"][untouched])


def test_every_ordinary_token_is_equally_likely_and_no_other_is_chosen():
    inputs = {"token_ids": np.tile([2, 7, 8, 1, 9, 4, 6, 3, 0], (4000, 1)), "padding_mask": np.ones((4000, 9), int)}
    hidden, _ = hide(inputs)
    positions = hidden["mask_positions"]
    counts = np.bincount(positions[positions >= 0], minlength=9)
    assert counts[[0, 3, 5, 7, 8]].sum() == 0
    chosen = counts[[1, 2, 4, 6]]
    assert ((chosen - 1000) ** 2 / 1000).sum() < 16.3  # chi-square, p = 0.001


def test_places_depend_on_the_length_only_and_positions_are_in_order():
    for inputs in (texts(3, 40), texts(1, 40)):
        hidden, targets = hide(inputs)
        assert hidden["mask_positions"].shape == targets.shape == (len(inputs["token_ids"]), 6)
        used = hidden["mask_positions"] >= 0
        assert (used[:, :-1] >= used[:, 1:]).all()
        assert (np.diff(hidden["mask_positions"])[used[:, 1:]] > 0).all()
    hidden, targets = hide({"token_ids": np.array([[2, 3]]), "padding_mask": np.array([[1, 1]])})
    assert (targets == -1).all() and targets.shape == (1, 1)
    np.testing.assert_array_equal(hidden["token_ids"], [[2, 3]])


def test_the_random_numbers_decide():
    inputs = texts(5)
    first, same, other = (hide(inputs, seed)[0]["token_ids"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_fractions_whose_sum_is_above_1_are_an_error():
    with pytest.raises(ValueError, match="Received: "):
        TokenMasking(mask_token_rate=0.8, random_token_rate=0.3)


def call(**changes):
    TokenMasking()({**texts(2), **changes}, np.random.default_rng(0), MASK, [0, 1, 2, 3, 4], SIZE)


test_a_mistake_is_one_error = check_errors(
    (lambda: call(token_ids=np.zeros((2, 3, 4), int)), "must be integers [batch, length] ... of shape (2, 3, 4)"),
    (lambda: call(token_ids=np.zeros(4, int)), "must be integers [batch, length] ... of shape (4,)"),
    (lambda: call(token_ids=np.zeros((2, 3))), "must be integers [batch, length] ... float64 of shape (2, 3)"),
    (lambda: call(padding_mask=np.ones((2, 3), int)), "must be integers [batch, length] ... int64 of shape (2, 3)"),
)
