"""`DisentangledAttention` and `DistanceEmbedding` against their equations."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import DisentangledAttention, DistanceEmbedding
from keras_transfer.layers.attention.disentangled import log_buckets
from tests.errors import check_errors
from tests.helpers import run_layer_test

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 8)).astype("float32")
INITIALIZER = keras.initializers.RandomNormal(stddev=0.5, seed=0)


def test_near_distances_have_their_own_bucket_and_far_ones_share_logarithmic_buckets():
    # Of `make_log_bucket_position` in Transformers
    assert log_buckets(8, 20).tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 8]
    assert log_buckets(0, 4).tolist() == [0, 1, 2, 3, 4]
    assert log_buckets(256, 512)[[127, 128, 129, 200, 300, 511, 512]].tolist() == [127, 128, 129, 169, 207, 255, 256]


@pytest.mark.parametrize("num_buckets", [0, 4])
def test_scores_are_those_of_contents_and_of_distances_in_both_directions(num_buckets):
    distances = DistanceEmbedding(4, num_buckets=num_buckets, layer_norm_epsilon=1e-3, initializer=INITIALIZER)
    attention = DisentangledAttention(2, kernel_initializer=INITIALIZER)
    attention(X, **distances(X))
    half = num_buckets or 4
    table = np.array(distances.norm(distances.embeddings))
    query, key, _ = np.split(X @ attention.query_key_value.kernel, 3, axis=-1)
    far_query, far_key, _ = np.split(table @ attention.query_key_value.kernel, 3, axis=-1)
    expected = np.zeros((2, 2, 5, 5))
    for i in range(5):
        for j in range(5):
            row = np.clip(half + np.sign(i - j) * log_buckets(num_buckets, 4)[abs(i - j)], 0, 2 * half - 1)
            score = query[:, i] * key[:, j] + query[:, i] * far_key[row] + key[:, j] * far_query[row]
            expected[:, :, i, j] = score.reshape(2, 2, 4).sum(-1) / 12**0.5
    query, key = (x.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for x in (query, key))
    np.testing.assert_allclose(attention.scores(query, key, **distances(X)), expected, atol=1e-5)


@pytest.mark.core
def test_it_is_a_well_behaved_layer():
    positions = RNG.normal(size=(10, 8)).astype("float32")
    arguments = {"num_heads": 2, "position_dropout": 0.1, "dropout": 0.1}
    run_layer_test(DisentangledAttention, arguments, X, {"relative_positions": positions}, X.shape)
    distances = DistanceEmbedding(4, num_buckets=4, layer_norm_epsilon=1e-7)
    assert DistanceEmbedding.from_config(distances.get_config()).get_config() == distances.get_config()


test_attention_without_distances_and_too_small_a_range_are_errors = check_errors(
    (lambda: DisentangledAttention(2)(X), "`relative_positions` is required"),
    (
        lambda: DistanceEmbedding(4, num_buckets=8),
        "must be at least 6, half of `num_buckets` plus 2. Received: max_distance=4, num_buckets=8",
    ),
)
