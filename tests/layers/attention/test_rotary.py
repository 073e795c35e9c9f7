"""`RotaryPositions` and what attention does with them."""

import numpy as np
import pytest

from keras_transfer.layers import MultiHeadAttention, RotaryPositions
from keras_transfer.layers.attention.rotary import rotate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 5, 6)).astype("float32")  # [batch, heads, length, head_dim]


def test_each_pair_of_elements_turns_by_its_position():
    rotated = np.array(rotate(X, RotaryPositions(4)(X[:, 0], start=2)["rotary"]))
    expected = X.copy()
    for position in range(5):
        for pair in range(2):
            angle = (position + 2) * 10000.0 ** (-2 * pair / 4)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            expected[:, :, position, [pair, pair + 2]] = X[:, :, position, [pair, pair + 2]] @ turn.T
    np.testing.assert_allclose(rotated, expected, atol=1e-5)


def test_attention_depends_on_distances_not_on_positions():
    layer, x = MultiHeadAttention(3), X[:, 0]
    rotary = RotaryPositions(2)
    shifted = layer(x, **rotary(x, start=7))
    np.testing.assert_allclose(shifted, layer(x, **rotary(x)), atol=1e-5)
    assert np.abs(np.array(shifted) - np.array(layer(x))).max() > 1e-4


@pytest.mark.parametrize("dim", [3, 0])
def test_an_odd_or_empty_width_is_an_error(dim):
    with pytest.raises(ValueError, match=f"`head_dim` must be a positive even number. Received: head_dim={dim}"):
        RotaryPositions(dim)
