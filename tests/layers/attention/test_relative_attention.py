"""`RelativeAttention`: its scores, from their definition, and its config."""

import numpy as np
from keras.ops import convert_to_numpy as to_numpy
from keras.ops import convert_to_tensor

from keras_transfer.layers import RelativeAttention, RelativePositions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 6)).astype("float32")
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 0, 2]])


def test_scores_are_the_sum_of_those_of_content_distance_and_segment():
    layer = RelativeAttention(num_heads=2, kernel_initializer="normal")
    positions = RelativePositions()(X, segment_ids=SEGMENTS)
    layer(X, **positions)
    query, key = RNG.normal(size=(2, 2, 2, 4, 3)).astype("float32")
    scores = to_numpy(layer.scores(*map(convert_to_tensor, (query, key)), **positions))
    encodings = to_numpy(positions["relative_positions"][0]) @ to_numpy(layer.position.kernel)
    encodings = encodings.reshape(8, 2, 3)
    biases = [to_numpy(bias) for bias in (layer.content_bias, layer.position_bias, layer.segment_bias)]
    segments = to_numpy(layer.segment_embedding)
    for b, h, i, j in np.ndindex(2, 2, 4, 4):
        others = (key[b, h, j], encodings[4 - (i - j), h], segments[int(SEGMENTS[b, i] != SEGMENTS[b, j]), h])
        expected = sum((query[b, h, i] + bias[h]) @ other for bias, other in zip(biases, others))
        np.testing.assert_allclose(scores[b, h, i, j], expected * 3**-0.5, atol=1e-5)


def test_the_layer_is_rebuilt_from_its_config():
    layer = RelativeAttention(2, dropout=0.2, kernel_initializer="zeros", name="attention")
    again = RelativeAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.dropout.rate, again.use_bias) == (0.2, False)
