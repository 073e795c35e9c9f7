"""`SequencePooling`: one vector from the real tokens, wherever the padding is."""

import numpy as np
import pytest

from keras_transfer.layers import SequencePooling
from keras_transfer.layers.heads.pooling import POOLINGS
from tests.helpers import run_layer_test

X = np.random.default_rng(0).normal(size=(5, 5, 3)).astype("float32")
# All real, padding right, padding left, a single real token, nothing but padding.
MASK = np.array([[1] * 5, [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 0, 0, 0, 0], [0] * 5], "int32")
REAL = [X[0], X[1, :2], X[2, 2:], X[3, :1]]
EXPECTED = {
    "first": [tokens[0] for tokens in REAL],
    "last": [tokens[-1] for tokens in REAL],
    "mean": [tokens.mean(0) for tokens in REAL],
    "max": [tokens.max(0) for tokens in REAL],
    "weighted_mean": [np.average(tokens, 0, np.arange(1, len(tokens) + 1)) for tokens in REAL],
    "mean_sqrt": [tokens.sum(0) / np.sqrt(len(tokens)) for tokens in REAL],
    "concat": [np.concatenate([tokens[-1], tokens.mean(0), tokens.max(0)]) for tokens in REAL],
    "concat_first": [np.concatenate([tokens[0], tokens.mean(0), tokens.max(0)]) for tokens in REAL],
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_only_real_tokens_count(pooling):
    pooled = np.array(SequencePooling(pooling)(X, padding_mask=MASK))
    np.testing.assert_allclose(pooled[:4], EXPECTED[pooling], atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_of_padding_gives_zeros(pooling):
    pooled = np.array(SequencePooling(pooling)(X, padding_mask=MASK))
    np.testing.assert_array_equal(pooled[4], np.zeros_like(pooled[4]))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_nan_in_the_padding_does_not_count(pooling):
    spoiled = np.where(MASK[..., None] == 1, X, np.nan)
    expected = SequencePooling(pooling)(X, padding_mask=MASK)
    np.testing.assert_array_equal(SequencePooling(pooling)(spoiled, padding_mask=MASK), expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_without_a_mask_all_tokens_are_real(pooling):
    expected = SequencePooling(pooling)(X, padding_mask=np.ones((5, 5), "int32"))
    np.testing.assert_array_equal(SequencePooling(pooling)(X), expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_it_is_a_well_behaved_layer(pooling):
    shape = (5, 9) if pooling in ("concat", "concat_first") else (5, 3)
    run_layer_test(SequencePooling, {"pooling": pooling}, X, {"padding_mask": MASK}, output_shape=shape)


def test_a_mean_of_many_half_precision_numbers_keeps_its_digits():
    ones = np.full((1, 4096, 1), 0.1, "float16")
    assert float(SequencePooling("mean", dtype="float16")(ones)[0, 0]) == float(np.float16(0.1))


def test_the_maximum_of_very_low_numbers_is_right():
    low = np.full((1, 2, 1), -1e6, "float32")
    assert float(SequencePooling("max")(low, padding_mask=np.array([[1, 0]]))[0, 0]) == -1e6
