"""`ProjectedLSTM(weight_dropout=...)`: one mask of the recurrent kernel for all steps and texts of a training call."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.layers import Dropout, ProjectedLSTM
from tests.helpers import EAGER, run_layer_test, save_and_load

X = np.random.default_rng(0).normal(size=(3, 6, 4)).astype("float32")
OPTIONS = {"units": 5, "forget_bias": 0.0, "weight_dropout": 0.5, "seed": 7}


def make(**options):
    layer = ProjectedLSTM(**{**OPTIONS, **options})
    layer.build(X.shape)
    for weight in layer.trainable_weights:
        weight.assign(np.random.default_rng(weight.shape[0]).normal(size=weight.shape) * 0.7)
    return layer


def masks(count):
    """The masks that a layer with the same seed draws in its first calls."""
    dropout = Dropout(OPTIONS["weight_dropout"], seed=OPTIONS["seed"])
    return [numpy_of(dropout(np.ones((5, 20), "float32"), training=True)) for _ in range(count)]


def lstm(x, kernel, recurrent, bias):
    """An LSTM by its definition, in double precision. Returns the outputs of all steps."""
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    h = c = np.zeros((len(x), len(recurrent)))
    outputs = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t].astype("float64") @ kernel + h @ recurrent + bias, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.core
def test_each_training_call_drops_other_weights_and_the_same_ones_at_all_its_steps_and_texts():
    layer = make()
    kernel, recurrent, bias = map(numpy_of, (layer.kernel, layer.cell.recurrent_kernel, layer.bias))
    first, second = masks(2)
    assert (first != second).mean() > 0.2 and set(np.unique(first)) == {0, 2}
    for mask in (first, second):
        expected = lstm(X, kernel, recurrent * mask, bias)
        np.testing.assert_allclose(numpy_of(layer(X, training=True)), expected, atol=1e-5)


def test_the_expected_recurrent_kernel_is_kept():
    layer, calls = make(units=64), 20
    ones = np.ones((64, 256), "float32")
    drawn = np.stack([numpy_of(layer.weight_drop(ones, training=True)) for _ in range(calls)])
    assert abs(drawn.mean() - 1) < 4 / np.sqrt(drawn.size)


def test_outside_of_training_it_is_the_layer_without_weight_dropout():
    outputs = make()(X, return_state=True)
    for ours, theirs in zip(outputs, make(weight_dropout=0.0)(X, return_state=True), strict=True):
        np.testing.assert_array_equal(numpy_of(ours), numpy_of(theirs))


@pytest.mark.core
def test_its_gradients_are_those_of_the_dropped_kernel_and_dropped_weights_have_none():
    (mask,), changes = masks(1), []
    for options in ({}, {"weight_dropout": 0.0}):
        layer = make(**options)
        if options:
            layer.cell.recurrent_kernel.assign(numpy_of(layer.cell.recurrent_kernel) * mask)
        model = keras.Sequential([keras.Input((6, 4)), layer])
        model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=EAGER)
        weights = (layer.kernel, layer.bias, layer.cell.recurrent_kernel)
        before = [numpy_of(weight) for weight in weights]
        model.train_on_batch(X, np.ones((3, 6, 5), "float32"))
        changes.append([numpy_of(weight) - value for weight, value in zip(weights, before)])
    ours, (kernel, bias, recurrent) = changes
    for change, expected in zip(ours, (kernel, bias, recurrent * mask)):
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(change, expected, atol=1e-6)


def test_it_is_a_well_behaved_layer_and_a_saved_model_draws_from_its_seed():
    run_layer_test(ProjectedLSTM, OPTIONS, X, output_shape=(3, 6, 5))
    model = keras.Sequential([keras.Input((6, 4)), make()])
    loaded = save_and_load(model)
    np.testing.assert_array_equal(numpy_of(loaded(X, training=True)), numpy_of(model(X, training=True)))
