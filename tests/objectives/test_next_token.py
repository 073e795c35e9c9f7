"""Targets of causal language models."""

import numpy as np

from keras_transfer.objectives import NextToken

INPUTS = {
    "token_ids": np.array([[5, 6, 7, 8], [9, 4, 1, 1], [3, 1, 1, 1]]),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]),
}


def test_the_target_of_a_token_is_the_next_one_and_padding_does_not_count():
    inputs, targets, weights = NextToken()(INPUTS)
    assert inputs is INPUTS
    assert targets.tolist() == [[6, 7, 8, 0], [4, 0, 0, 0], [0, 0, 0, 0]] and targets.dtype == "int32"
    assert weights.tolist() == [[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]] and weights.dtype == "float32"
