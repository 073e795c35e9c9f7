"""`LayerNormalization` against Keras's, and its gradient within a tape."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import LayerNormalization
from tests.helpers import run_layer_test

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(1, 2, size=(2, 3, 4)).astype("float32")


def pair(**options):
    layers = LayerNormalization(epsilon=1e-3, **options), keras.layers.LayerNormalization(epsilon=1e-3, **options)
    for layer in layers:
        layer.build(X.shape)
        layer.set_weights([np.linspace(0.5, 2, weight.shape[0]) for weight in layer.weights])
    return layers


def test_it_is_a_well_behaved_layer():
    run_layer_test(LayerNormalization, {"epsilon": 1e-5}, X, output_shape=X.shape)


@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`")
@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.core), {"axis": 1}, {"center": False}, {"rms_scaling": True}]
)
def test_it_equals_the_layer_of_keras(options):
    ours, theirs = pair(**options)
    expected = keras.ops.convert_to_numpy(theirs(X))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(ours(X)), expected, atol=1e-6)


@pytest.mark.parametrize(("traced", "center"), [(False, True), (True, True), (True, False)])
def test_its_outputs_and_gradients_within_a_tape_are_those_of_the_layer_of_keras(traced, center):
    import tensorflow as tf

    def gradients(layer, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                outputs = layer(x)
                loss = tf.reduce_sum(tf.sin(outputs))
            first = inner.gradient(loss, [x, *(weight.value for weight in layer.weights)])
            squares = tf.reduce_sum(first[0] ** 2)
        return [outputs, *first, outer.gradient(squares, x)]

    ours, theirs = pair(center=center)
    run = tf.function(gradients, autograph=False) if traced else gradients
    for found, expected in zip(run(ours, tf.constant(X)), run(theirs, tf.constant(X)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
