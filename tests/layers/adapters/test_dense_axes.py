"""Which layers are products of their inputs with a matrix, and over which axes of their kernels they sum."""

import keras
import pytest

from keras_transfer.layers.adapters.wrapper import dense_axes


def built(layer, shape=(2, 3, 4)):
    layer.build(shape)
    return layer


@pytest.mark.parametrize(
    ("equation", "outputs", "bias", "expected"),
    [
        ("abc,cd->abd", (None, 5), "d", ([0], [1])),
        ("abc,dc->abd", (None, 5), "d", ([1], [0])),
        ("abc,cde->abde", (None, 5, 6), "de", ([0], [1, 2])),
        ("abc,bcd->ad", (5,), None, ([0, 1], [2])),
        ("abc,cd->abd", (None, 5), None, ([0], [1])),
        ("abc,cde->abde", (None, 5, 6), "e", None),  # One bias for several outputs.
        ("abc,bcd->abd", (3, 5), None, None),  # An own matrix for each place.
        ("abc,cd->adb", (5, 3), None, None),  # The outputs are not the last axis.
    ],
)
def test_einsum_layers_that_multiply_with_one_matrix_are_dense(equation, outputs, bias, expected):
    layer = built(keras.layers.EinsumDense(equation, outputs, bias_axes=bias))
    assert dense_axes(layer) == expected


def test_only_layers_that_are_linear_maps_are_dense():
    assert dense_axes(built(keras.layers.Dense(5))) == ([0], [1])
    assert dense_axes(built(keras.layers.EinsumDense("abc,cd->abd", (None, 5), activation="relu"))) is None
    assert dense_axes(built(keras.layers.LayerNormalization())) is None
