"""`memory_estimate` says what a step needs."""

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
def test_the_largest_part_of_a_batch_is_the_one_whose_estimate_fits():
    model, x, y = model_of(), np.ones((48, 4), "float32"), np.ones((48, 8), "float32")
    needed = {rows: memory_estimate(model, (x[:rows], y[:rows])).total for rows in (48, 24, 12, 6, 3, 1)}
    gathered = 4 * (4 * 8 + 8)  # gradients of several batches
    assert largest_batch(model, (x, y), limit=needed[48]) == 48
    assert largest_batch(model, (x, y), limit=needed[48] - 1) == 24
    assert largest_batch(model, (x, y), limit=needed[24] + gathered - 1) == 12
    assert largest_batch(model, (x, y), limit=needed[1] + gathered) == 1
    with pytest.raises(ValueError, match="Not even one row fits into memory.* Received: a step that needs"):
        largest_batch(model, (x, y), limit=needed[1] + gathered - 1)
    assert largest_batch(model, (x, y)) == 48  # in the memory of the machine


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="the estimate is of JAX")
@pytest.mark.parametrize("function", [memory_estimate, largest_batch])
def test_other_backends_have_no_estimate(function):
    with pytest.raises(
        ValueError, match="Only JAX says how much memory a step needs.*Received: backend='(tensorflow|torch)'"
    ):
        function(model_of(), (np.ones((16, 4)), np.ones((16, 8))))
