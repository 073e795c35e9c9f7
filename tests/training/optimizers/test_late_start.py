"""A group that begins to train late begins as at step 0 with `LayerwiseOptimizer`, but jumps with a plain Adam."""

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import GradualUnfreezing
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.helpers import EAGER
from tests.training.optimizers.layerwise_models import RATE, X, Y, late_start, net

LATE = 500


@pytest.mark.core
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}], ids=["each batch", "every other batch"])
def test_a_late_group_moves_at_most_by_the_rate(options):
    lengths, counts = late_start(True, LATE, **options)
    gathered = options.get("gradient_accumulation_steps", 1)
    assert len(lengths) == 20 and lengths[gathered - 1] == pytest.approx(1, abs=1e-3)
    assert 0.3 < max(lengths) <= 1.05
    steps = {"low": 20, "norm": 20, "mid": LATE + 20, "top": LATE + 20}
    assert counts == {name: count // gathered for name, count in steps.items()}


def test_with_a_plain_adam_it_moves_several_times_the_rate():
    lengths, _ = late_start(False, LATE)
    # Its moments begin at 0, but the step count that corrects them does not.
    first = 0.1 / np.sqrt(0.001 / (1 - 0.999 ** (LATE + 1)))
    assert lengths[0] == pytest.approx(first, rel=1e-2) and first > 1.9
    assert sum(length > first / 2 for length in lengths) >= 5


def test_a_schedule_follows_the_steps_of_the_run_and_not_of_the_group():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([15], [RATE, 0.0])
    model = net()
    model.compile(LayerwiseOptimizer(keras.optimizers.Adam(schedule), model), "mse", run_eagerly=EAGER)
    start = model.get_weights()
    callback = GradualUnfreezing(epochs=5, below="mid")  # The second stage begins at step 20, when the rate is zero.
    model.fit(X, Y, batch_size=16, epochs=6, verbose=0, callbacks=[callback])
    moved = [abs(new - old).max() for new, old in zip(model.get_weights(), start)]
    assert moved[:6] == [0] * 6 and min(moved[6:]) > RATE
    assert [int(part.iterations) for part in model.optimizer.group_optimizers()] == [0, 0, 4, 24]
