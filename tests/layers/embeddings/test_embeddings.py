"""Tables of positions and segments: a row for each token, never one that the table does not have."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import PositionEmbedding, SegmentEmbedding
from tests.helpers import run_layer_test

X = np.zeros((2, 5, 3), "float32")


def test_it_is_a_well_behaved_layer():
    run_layer_test(PositionEmbedding, {"max_sequence_length": 8}, X, output_shape=(1, 5, 3))


def test_the_ith_token_gets_the_ith_row():
    layer = PositionEmbedding(8)
    np.testing.assert_array_equal(layer(X)[0], layer.embeddings.numpy()[:5])


def test_it_starts_at_the_given_position():
    layer = PositionEmbedding(8)
    np.testing.assert_array_equal(layer(X, start=3)[0], layer.embeddings.numpy()[3:8])


def test_a_sequence_as_long_as_the_table_fits():
    assert PositionEmbedding(5)(X).shape == (1, 5, 3)


@pytest.mark.parametrize(("rows", "start"), [(4, 0), (8, 4)])
def test_a_sequence_longer_than_the_table_is_an_error(rows, start):
    with pytest.raises(
        ValueError, match=f"at most {rows} tokens, the size of the position.*Received: tokens={start + 5}"
    ):
        PositionEmbedding(rows)(X, start=start)


def test_a_fixed_length_longer_than_the_table_is_an_error_when_the_model_is_built():
    with pytest.raises(ValueError, match=r"at most 4 tokens, the size of the position table"):
        PositionEmbedding(4)(keras.Input((5, 3)))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_segment_gets_exactly_its_row(dtype):
    layer = SegmentEmbedding(2, 3, dtype=dtype)
    rows = keras.ops.convert_to_numpy(layer(np.array([[1, 0], [0, 0]], "int32")))
    table = keras.ops.convert_to_numpy(keras.ops.cast(layer.embeddings, layer.compute_dtype))
    np.testing.assert_array_equal(rows, table[[[1, 0], [0, 0]]])


@pytest.mark.core
def test_a_segment_that_does_not_exist_is_not_silently_another_one():
    try:
        rows = SegmentEmbedding(2, 3)(np.array([[0, 2]], "int32"))
    except Exception as error:  # of the backend
        assert "range" in str(error) or "[0, 2)" in str(error)
    else:
        np.testing.assert_array_equal(np.isnan(keras.ops.convert_to_numpy(rows))[0], [[False] * 3, [True] * 3])
