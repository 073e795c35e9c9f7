"""Layers that read or change some positions of a sequence, and output embeddings."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import OutputEmbeddings, PositionLogits, TakePositions
from keras_transfer.layers.heads.token_positions import put_tokens
from tests.helpers import run_layer_test


@pytest.mark.core
def test_vectors_are_taken_at_positions():
    inputs = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    positions = np.array([[4, 0, -1], [2, 2, 1]], "int32")
    run_layer_test(TakePositions, {}, inputs, {"positions": positions}, output_shape=(2, 3, 3))
    taken = keras.ops.convert_to_numpy(TakePositions()(inputs, positions))
    np.testing.assert_array_equal(taken, np.stack([inputs[0, [4, 0, 0]], inputs[1, [2, 2, 1]]]))


def test_scores_become_logits_over_the_positions_that_count():
    inputs = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("float32")
    mask = np.array([[1, 0, 1], [0, 1, 0]], "int32")
    run_layer_test(PositionLogits, {}, inputs, {"position_mask": mask}, output_shape=(2, 2, 3))
    logits = keras.ops.convert_to_numpy(PositionLogits()(inputs, mask))
    np.testing.assert_array_equal(logits, np.where(mask[:, None] == 1, inputs.transpose(0, 2, 1), -3e4))


@pytest.mark.core
def test_tokens_are_put_at_positions():
    found = put_tokens(np.array([[5, 6, 7], [8, 9, 4]]), np.array([[2, 0], [-1, -1]]), np.array([[1, 2], [3, 3]]))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), [[2, 6, 1], [8, 9, 4]])


@pytest.mark.parametrize("use_bias", [False, True])
def test_output_embeddings_score_every_token_in_float32(use_bias):
    table = keras.layers.Embedding(7, 4)
    table.build(None)
    vectors = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    layer = OutputEmbeddings(table, use_bias=use_bias)
    expected = vectors @ keras.ops.convert_to_numpy(table.embeddings).T
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer(vectors)), expected, atol=1e-5)
    for rows in (1, 2):  # The products of a step are computed in other orders.
        one_step = keras.ops.convert_to_numpy(layer(vectors[:rows, 0]))
        np.testing.assert_allclose(one_step, expected[:rows, 0], atol=1e-5)
    assert len(layer.weights) == use_bias
    half = OutputEmbeddings(table, use_bias=use_bias, dtype="mixed_bfloat16")
    for inputs in (vectors, vectors[:, 0]):
        assert keras.backend.standardize_dtype(half(inputs).dtype) == "float32"
    again = OutputEmbeddings.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
