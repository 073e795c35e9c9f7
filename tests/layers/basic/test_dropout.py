"""`Dropout`: the fraction that it drops, the independence of its two halves, and when it uses Keras's own."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import Dropout
from tests.helpers import run_layer_test

ROWS = np.ones((200, 8, 250), "float32")


def dropped(layer, inputs):
    return keras.ops.convert_to_numpy(layer(inputs, training=True)) == 0


def test_it_is_a_well_behaved_layer():
    run_layer_test(Dropout, {"rate": 0.1}, np.ones((2, 3, 4), "float32"), output_shape=(2, 3, 4))


@pytest.mark.parametrize("rate", [0.1, pytest.param(0.25, marks=pytest.mark.core), 0.5, 0.9])
def test_the_dropped_fraction_of_each_half_is_the_rate_and_the_mean_is_kept(rate):
    outputs = keras.ops.convert_to_numpy(Dropout(rate, seed=1)(ROWS, training=True))
    # 200,000 numbers a half: four standard deviations.
    margin = 4 * np.sqrt(rate * (1 - rate) / 200_000)
    for half in (outputs[..., :125], outputs[..., 125:]):
        assert abs((half == 0).mean() - rate) < margin + rate / 100
    kept = np.unique(outputs[outputs != 0])
    np.testing.assert_allclose(kept, 2048 / (2048 - round(rate * 2048)), rtol=1e-6)
    assert abs(outputs.mean() - 1) < 4 * np.sqrt(rate / (1 - rate) / 400_000)


@pytest.mark.core
def test_two_elements_that_share_a_random_number_are_independent():
    gone = dropped(Dropout(0.5, seed=1), ROWS)
    both = (gone[..., :125] & gone[..., 125:]).mean()
    assert abs(both - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 200_000)


def test_a_seed_fixes_the_dropped_elements_and_each_step_drops_others():
    first, second = Dropout(0.3, seed=7), Dropout(0.3, seed=7)
    step = dropped(first, ROWS)
    np.testing.assert_array_equal(step, dropped(second, ROWS))
    assert (step != dropped(first, ROWS)).mean() > 0.3


def test_nothing_is_dropped_outside_of_training():
    layer = Dropout(0.5)
    for training in (False, None):
        np.testing.assert_array_equal(layer(ROWS, training=training), ROWS)


@pytest.mark.parametrize("shape", [(4, 6, 5), (4, 5, 6), (2, 3, 5), (3, 5)])
def test_any_shape_is_dropped_at_the_rate(shape):
    gone = np.stack([dropped(layer, np.ones(shape, "float32")) for layer in [Dropout(0.5, seed=3)] * 200])
    assert gone.shape[1:] == shape
    assert abs(gone.mean() - 0.5) < 4 * 0.5 / np.sqrt(gone.size)


def test_an_unknown_last_axis_is_supported():
    inputs = keras.Input((4, None, None))
    model = keras.Model(inputs, Dropout(0.5, seed=3)(inputs))
    gone = keras.ops.convert_to_numpy(model(np.ones((30, 4, 5, 7), "float32"), training=True)) == 0
    assert abs(gone.mean() - 0.5) < 4 * 0.5 / np.sqrt(gone.size)


def is_keras_own(**options):
    ours, keras_own = Dropout(**options, seed=5), keras.layers.Dropout(**options, seed=5)
    return bool((dropped(ours, ROWS) == dropped(keras_own, ROWS)).all())


@pytest.mark.parametrize("options", [{"rate": 0.001}, {"rate": 0.0075}, {"rate": 0.5, "noise_shape": (None, 1, 250)}])
def test_rates_and_shapes_that_it_does_not_support_use_the_dropout_of_keras(options):
    assert is_keras_own(**options)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_supported_rates_do_not_use_the_dropout_of_keras(rate):
    assert not is_keras_own(rate=rate)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_half_precision_the_same_elements_are_dropped_and_the_dtype_is_kept(dtype):
    inputs = keras.ops.cast(ROWS, dtype)
    outputs = Dropout(0.25, seed=1, dtype=dtype)(inputs, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    gone = keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float32")) == 0
    np.testing.assert_array_equal(gone, dropped(Dropout(0.25, seed=1), ROWS))


def test_a_rate_of_zero_drops_nothing_and_a_rate_of_one_drops_everything():
    np.testing.assert_array_equal(Dropout(0.0)(ROWS, training=True), ROWS)
    assert dropped(Dropout(1.0), ROWS).all()


def test_dropped_elements_have_no_gradient():
    inputs, layer = keras.Input((6,)), Dropout(0.5, seed=2)
    scale = keras.layers.Dense(6, use_bias=False, kernel_initializer="identity")
    model = keras.Model(inputs, layer(scale(inputs)))
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, outputs: keras.ops.sum(outputs, axis=-1))
    model.train_on_batch(np.ones((1, 6), "float32"), np.zeros((1, 6), "float32"))
    moved = (scale.kernel.numpy() != np.eye(6)).any(axis=0)
    gone = dropped(Dropout(0.5, seed=2), np.ones((1, 6), "float32"))[0]
    np.testing.assert_array_equal(moved, ~gone)
