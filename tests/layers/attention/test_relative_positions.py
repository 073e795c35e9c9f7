"""`RelativePositionBias`, `RelativePositions`, and `by_distance`, which both kinds of attention use."""

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.layers import MultiHeadAttention, RelativePositionBias, RelativePositions
from keras_transfer.layers.attention.relative_positions import by_distance

X = np.random.default_rng(0).normal(size=(1, 5, 6)).astype("float32")


@pytest.mark.core
def test_values_of_distances_are_sorted_by_keys():
    values = np.random.default_rng(0).normal(size=(2, 3, 5, 10)).astype("float32")  # of the distances 5, 4, ..., -4
    expected = np.array([[values[:, :, i, 5 - (i - j)] for j in range(5)] for i in range(5)])
    np.testing.assert_array_equal(to_numpy(by_distance(values)), expected.transpose(2, 3, 0, 1))
    last = to_numpy(by_distance(values[:, :, 3:, :7]))  # of two queries, whose keys are theirs and three before
    expected = np.array([[values[:, :, 3 + i, 2 + j - i] for j in range(5)] for i in range(2)])
    np.testing.assert_array_equal(last, expected.transpose(2, 3, 0, 1))


def test_near_distances_have_a_bucket_each_and_far_ones_share_growing_buckets():
    buckets = RelativePositionBias(2)._buckets()
    starts = [distance for distance in range(129) if distance == 0 or buckets[distance] != buckets[distance - 1]]
    assert starts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]  # as in Transformers
    assert buckets[128] == 15


def test_the_bias_of_a_score_is_that_of_its_bucket():
    layer = RelativePositionBias(num_heads=2, num_buckets=8, max_distance=4, initializer="normal")
    bias = np.array(layer(X)["relative_positions"])
    table = np.array(layer.embeddings)
    assert bias.shape == (1, 2, 5, 5)
    np.testing.assert_array_equal(bias[0, :, 2, 1], table[1])  # one token back
    np.testing.assert_array_equal(bias[0, :, 1, 2], table[4 + 1])  # one token ahead
    np.testing.assert_array_equal(bias[0, :, 3, 3], table[0])
    np.testing.assert_array_equal(bias[0, :, 4, 0], table[3])  # as far as any
    assert MultiHeadAttention(2)(X, **layer(X)).shape == X.shape
    of_memory = np.array(layer(X[:, 3:], memory=X[:, :3])["relative_positions"])
    np.testing.assert_array_equal(of_memory, bias[:, :, 3:])
    of_cache = np.array(layer(X[:, 3:], start=3, num_keys=5)["relative_positions"])
    np.testing.assert_array_equal(of_cache, bias[:, :, 3:])


def test_the_bias_layer_is_rebuilt_from_its_config():
    layer = RelativePositionBias(2, num_buckets=8, max_distance=16, initializer="zeros", name="bias")
    assert RelativePositionBias.from_config(layer.get_config()).get_config() == layer.get_config()
    with pytest.raises(ValueError, match="`num_buckets` must be a positive multiple of 4. Received: num_buckets=6"):
        RelativePositionBias(2, num_buckets=6)


def test_encodings_are_sinusoids_of_the_distance():
    encodings, differs = RelativePositions()(X, segment_ids=np.array([[0, 0, 1, 1, 0]]))["relative_positions"]
    rates = 10000.0 ** (-np.arange(0, 6, 2) / 6)
    angles = np.arange(5, -5, -1)[:, None] * rates
    np.testing.assert_allclose(encodings, np.concatenate([np.sin(angles), np.cos(angles)], 1), atol=1e-5)
    assert np.array(differs)[0, 0].astype(int).tolist()[0] == [0, 0, 1, 1, 0]
