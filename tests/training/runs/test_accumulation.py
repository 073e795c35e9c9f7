"""Accumulated gradients: each batch of a run counts in one update, and no gradient is left for the next run."""

import keras
import numpy as np
import pytest

from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.fitting import fit_in_run
from tests.helpers import EAGER
from tests.training.rows import Rows

X = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")
Y = X @ np.array([[1.0], [-2.0], [0.5]], "float32")
BATCHES, ROWS = 5, 2
RATE = 0.1


def make(steps, rate=RATE, wrapper=None):
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="head")
    model = keras.Sequential([keras.Input((3,)), layer])
    optimizer = keras.optimizers.SGD(rate, gradient_accumulation_steps=steps)
    if wrapper == "layer groups":
        optimizer = LayerwiseOptimizer(optimizer, model)
    if wrapper == "loss scale":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0)
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    return model


def fit(model, *callbacks, **options):
    options = {"epochs": 1, "verbose": 0, "shuffle": False, **options}
    return fit_in_run(model.fit, Rows(X, Y, ROWS), list(callbacks), options)


def kernel(model):
    return keras.ops.convert_to_numpy(model.layers[-1].kernel)


def expected(updates, rates=None):
    """The kernel after updates from the mean gradients of lists of batches."""
    weights = np.zeros((3, 1))
    for number, batches in enumerate(updates):
        parts = [slice(ROWS * batch, ROWS * batch + ROWS) for batch in batches]
        gradients = [2 * X[part].T @ (X[part] @ weights - Y[part]) / ROWS for part in parts]
        weights = weights - (RATE if rates is None else rates[number]) * np.mean(gradients, axis=0)
    return weights


@pytest.mark.core
@pytest.mark.parametrize(("steps", "updates"), [(2, [[0, 1], [2, 3], [4]]), (8, [[0, 1, 2, 3, 4]])])
def test_the_batches_that_are_left_at_the_end_of_a_run_make_an_update(steps, updates):
    model = make(steps)
    history = fit(model, validation_data=(X, Y)).history
    np.testing.assert_allclose(kernel(model), expected(updates), atol=1e-5)
    assert int(model.optimizer.iterations) == len(updates)
    assert history["val_loss"][-1] == pytest.approx(model.evaluate(X, Y, verbose=0), rel=1e-5)
    fit(model)  # The next run begins with the first batch of an update.
    again = make(steps)
    again.layers[-1].kernel.assign(expected(updates))
    fit(again)
    np.testing.assert_allclose(kernel(model), kernel(again), atol=1e-5)


@pytest.mark.parametrize("wrapper", ["layer groups", "loss scale"])
def test_a_wrapped_optimizer_uses_the_last_batches(wrapper):
    model = make(2, wrapper=wrapper)
    fit(model)
    np.testing.assert_allclose(kernel(model), expected([[0, 1], [2, 3], [4]]), atol=1e-5)


def test_batches_of_two_epochs_make_an_update_together():
    model = make(2)
    fit(model, epochs=2)
    np.testing.assert_allclose(kernel(model), expected([[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]), atol=1e-5)


def test_the_last_update_has_the_rate_of_the_last_batch():
    model = make(2, keras.optimizers.schedules.PolynomialDecay(RATE, BATCHES, 0.0))
    fit(model)
    rates = [RATE * (1 - batch / BATCHES) for batch in (1, 3, 4)]
    np.testing.assert_allclose(kernel(model), expected([[0, 1], [2, 3], [4]], rates), atol=1e-5)


@pytest.mark.core
def test_gradients_of_a_run_that_ends_early_are_dropped_with_a_warning(caplog):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    model = make(2)
    fit(model, Stop(), epochs=2)
    assert "The gradients of its last 1 batches, too few for an update, are dropped." in caplog.text
    np.testing.assert_allclose(kernel(model), expected([[0, 1]]), atol=1e-5)
    model.layers[-1].kernel.assign(np.zeros((3, 1)))
    fit(model)
    np.testing.assert_allclose(kernel(model), expected([[0, 1], [2, 3], [4]]), atol=1e-5)
