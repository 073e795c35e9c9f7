"""`memory_estimate` says what a step needs."""

import keras
import numpy as np
import pytest

from keras_transfer.distribute import memory_estimate

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


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="the estimate is of JAX")
def test_other_backends_have_no_estimate():
    with pytest.raises(
        ValueError, match="Only JAX says how much memory a step needs.*Received: backend='(tensorflow|torch)'"
    ):
        memory_estimate(model_of(), (np.ones((16, 4)), np.ones((16, 8))))
