"""`memory_estimate` says what a step needs."""

import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.distribute import largest_batch, memory_estimate

pytestmark = pytest.mark.core
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="the estimate is of JAX")


def model_of():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
    model.compile("adam", "mse")
    return model


@on_jax
def test_the_parts_of_a_small_step_are_counted():
    found = memory_estimate(model_of(), (np.ones((16, 4), "float32"), np.ones((16, 8), "float32")))
    assert found.weights == 4 * (4 * 8 + 8) + 8  # and the two numbers of the mean loss
    assert found.gradients == 4 * (4 * 8 + 8) and found.batch == 4 * (16 * 4 + 16 * 8)
    assert found.optimizer == 4 * (2 * (4 * 8 + 8) + 2)  # two moments, the number of steps and the learning rate
    assert found.total >= found.weights + found.optimizer + found.batch
    assert f"batch {found.batch / 1e6:.1f} MB" in str(found)


@on_jax
@pytest.mark.parametrize("divisors", [(12, 6, 4, 3, 2, 1), (25, 5, 1), (7, 1)])
def test_the_highest_divisor_of_the_rows_whose_estimate_fits_is_found(divisors):
    model, every = model_of(), divisors[0]
    x, y = np.ones((every, 4), "float32"), np.ones((every, 8), "float32")
    gathered = 4 * (4 * 8 + 8)  # gradients of several batches
    for rows in divisors:
        needed = memory_estimate(model, (x[:rows], y[:rows])).total + (gathered if rows < every else 0)
        assert largest_batch(model, (x, y), limit=needed) == rows
    with pytest.raises(ValueError, match="Not even one row fits into memory.* Received: a step that needs"):
        largest_batch(model, (x, y), limit=needed - 1)


@on_jax
def test_the_optimizer_takes_its_memory_before_what_is_free_is_measured(monkeypatch):
    model, seen = model_of(), []

    def free():
        seen.append(len(model.optimizer.variables))
        return 10**6

    monkeypatch.setattr("keras_transfer.distribute.memory._free_memory", free)
    assert largest_batch(model, (np.ones((16, 4), "float32"), np.ones((16, 8), "float32"))) == 16
    assert seen == [2 + 2 * 2]  # two moments of two weights


@on_jax
@pytest.mark.skipif(not pathlib.Path("/proc/meminfo").exists(), reason="needs Linux")
def test_the_machine_says_how_much_memory_is_free():
    assert largest_batch(model_of(), (np.ones((16, 4), "float32"), np.ones((16, 8), "float32"))) == 16


@on_jax
def test_a_limit_is_a_number_of_bytes():
    for limit in (0, 1e9, "1 GB"):
        with pytest.raises(ValueError, match="`limit` must be an integer of at least 1. Received: limit="):
            largest_batch(model_of(), (np.ones((4, 4)), np.ones((4, 8))), limit=limit)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="the estimate is of JAX")
@pytest.mark.parametrize("function", [memory_estimate, largest_batch])
def test_other_backends_have_no_estimate(function):
    with pytest.raises(
        ValueError, match="Only JAX says how much memory a step needs.*Received: backend='(tensorflow|torch)'"
    ):
        function(model_of(), (np.ones((16, 4)), np.ones((16, 8))))
