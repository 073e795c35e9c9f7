"""`LayerwiseOptimizer` with loss scaling and under `mixed_float16`."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.building import build_optimizer
from tests.training.optimizers.layerwise_models import HALVES, RATE, X, Y, difference, net

optimizers = keras.optimizers


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [None, L2SP(0.5, squared=False)], ids=["no penalty", "penalty"])
def test_inside_a_loss_scale_optimizer_it_trains_the_same(penalty):
    one, two = net(), net()
    one.compile(LayerwiseOptimizer(optimizers.Adam(RATE), one, rates=HALVES, penalty=penalty), "mse", run_eagerly=True)
    inner = LayerwiseOptimizer(optimizers.Adam(RATE), two, rates=HALVES, penalty=penalty)
    two.compile(optimizers.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=2), "mse")
    for model in (one, two):
        model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
    assert float(two.optimizer.dynamic_scale) == 64 * 2**4
    assert difference(one.get_weights(), two.get_weights()) < 1e-6


def test_a_step_that_loss_scaling_skips_is_not_counted():
    model = net()
    inner = LayerwiseOptimizer(optimizers.Adam(RATE), model, penalty=L2SP(squared=False))
    model.compile(optimizers.LossScaleOptimizer(inner), "mse")
    build_optimizer(model)
    start = model.get_weights()
    model.fit(np.full((8, 4), np.inf), Y[:8], verbose=0)
    assert difference(model.get_weights(), start) == 0
    assert [int(part.iterations) for part in inner.group_optimizers()] == [0] * 4
    model.fit(X[:8], Y[:8], verbose=0)
    assert [int(part.iterations) for part in inner.group_optimizers()] == [1] * 4


def test_under_mixed_float16_a_step_is_the_plain_one_times_the_rate_of_the_group():
    policy = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_float16")
        models = net(), net()
    finally:
        keras.config.set_dtype_policy(policy)
    start = models[0].get_weights()
    models[0].compile(optimizers.SGD(RATE), "mse")
    models[1].compile(LayerwiseOptimizer(optimizers.SGD(RATE), models[1], rates=HALVES), "mse")
    for model in models:
        assert isinstance(model.optimizer, optimizers.LossScaleOptimizer)
        model.train_on_batch(X, Y)
    for weight, plain, ours, old in zip(models[0].weights, *(m.get_weights() for m in models), start):
        factor = HALVES[weight.path.split("/")[0]]
        assert np.abs(plain - old).max() > 1e-4
        np.testing.assert_allclose(ours - old, factor * (plain - old), atol=2e-7)
