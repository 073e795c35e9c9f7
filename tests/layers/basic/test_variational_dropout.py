"""`VariationalDropout`: one mask for all steps of a text, another for each text and call."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import VariationalDropout
from tests.errors import check_errors
from tests.helpers import run_layer_test

X = np.random.default_rng(0).normal(size=(400, 5, 250)).astype("float32")


def outputs_of(layer, inputs=X, training=True):
    return keras.ops.convert_to_numpy(layer(inputs, training=training))


def test_it_is_a_well_behaved_layer():
    run_layer_test(VariationalDropout, {"rate": 0.5, "seed": 1}, X[:2], output_shape=(2, 5, 250))


@pytest.mark.core
def test_each_text_has_one_mask_for_all_its_steps():
    factors = outputs_of(VariationalDropout(0.25, seed=1)) / X
    np.testing.assert_allclose(factors, np.repeat(factors[:, :1], 5, axis=1), rtol=1e-5)
    masks = factors[:, 0]
    np.testing.assert_allclose(masks[masks != 0], 1 / 0.75, rtol=1e-5)
    # 100,000 elements: four standard deviations.
    assert abs((masks == 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / masks.size)
    assert abs(masks.mean() - 1) < 4 * np.sqrt(0.25 / 0.75 / masks.size)
    # Two texts agree in an element with probability 0.25^2 + 0.75^2.
    assert abs(((masks[0::2] == 0) == (masks[1::2] == 0)).mean() - 0.625) < 4 * np.sqrt(0.625 * 0.375 * 2 / masks.size)


def test_a_seed_fixes_the_masks_and_each_call_draws_others():
    first, second = VariationalDropout(0.5, seed=7), VariationalDropout(0.5, seed=7)
    drawn = outputs_of(first)
    np.testing.assert_array_equal(drawn, outputs_of(second))
    assert ((drawn == 0) != (outputs_of(first) == 0)).mean() > 0.4


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True)])
def test_outside_of_training_and_without_a_rate_nothing_changes(rate, training):
    np.testing.assert_array_equal(outputs_of(VariationalDropout(rate), X, training), X)


def test_any_length_and_batch_size_can_be_dropped_in_a_graph():
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, VariationalDropout(0.5, seed=1)(inputs))
    model.compile(loss="mse")
    outputs = keras.ops.convert_to_numpy(model(X[:, :, :6], training=True))
    np.testing.assert_array_equal(outputs == 0, np.repeat(outputs[:, :1] == 0, 5, axis=1))
    assert abs((outputs == 0).mean() - 0.5) < 4 * np.sqrt(0.25 / 2400)


test_mistakes_are_clear_errors = check_errors(
    (lambda: VariationalDropout(1.5), "`rate` ... between 0 and 1 ... Received: rate=1.5"),
    (lambda: VariationalDropout(0.5)(X[0]), "expected ndim=3, found ndim=2"),
)
