"""Stages with their own learning rate, an optimizer that begins again, and an end before the last stage."""

import contextlib
import logging

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP, freeze
from keras_transfer.callbacks import Stage, StagedTraining, TrainingCheckpoint
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.optimizers.schedules import SlantedTriangular
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.training.runs.staging_models import NAMES, STEPS, Restarting, difference, fit, make, synced, values

Adam, SGD = keras.optimizers.Adam, keras.optimizers.SGD


def separate_runs(*runs):
    """The weights after runs of an epoch each: `(layers that train, new optimizer)`."""
    model = make()
    for names, optimizer in runs:
        for layer in model.layers:
            layer.trainable = True
        model.compile(optimizer, "mse", run_eagerly=EAGER)
        if others := [name for name in NAMES if name not in names]:
            freeze(model, others)
        fit(model, epochs=1)
    return values(model)


# === Learning rates and fresh optimizers ===


@pytest.mark.core
def test_stages_with_fresh_optimizers_and_rates_are_separate_runs():
    model = make(Adam(0.5))
    stages = [
        Stage("head", epochs=1, learning_rate=0.01),
        Stage(["low", "mid"], epochs=1, learning_rate=0.002),
        Stage("all", learning_rate=0.005),
    ]
    fit(model, Restarting(stages), epochs=3)
    expected = separate_runs((["head"], Adam(0.01)), (["low", "mid"], Adam(0.002)), (NAMES, Adam(0.005)))
    assert difference(values(model), expected) < 1e-6
    assert float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)) == 0.5
    assert int(model.optimizer.iterations) == STEPS


def test_a_fresh_optimizer_restarts_its_schedule_without_a_warning(caplog):
    model = make(SGD(SlantedTriangular(0.2, STEPS, cut_fraction=0.5)))
    stages = [Stage("head", epochs=1), Stage("all")]
    fit(model, Restarting(stages), epochs=2)
    triangles = [SGD(SlantedTriangular(0.2, STEPS, cut_fraction=0.5)) for _ in range(2)]
    expected = separate_runs((["head"], triangles[0]), (NAMES, triangles[1]))
    assert difference(values(model), expected) < 1e-6
    assert "ends at step" not in caplog.text


def test_a_schedule_of_a_stage_counts_the_steps_of_the_optimizer():
    halves = keras.optimizers.schedules.ExponentialDecay(0.4, 1, 0.5)
    one, two = make(SGD(0.3)), make(SGD(halves))
    fit(one, StagedTraining([Stage("head", epochs=1), Stage("all", learning_rate=halves)]), epochs=2)
    fit(two, StagedTraining([Stage("head", epochs=1, learning_rate=0.3), Stage("all")]), epochs=2)
    assert difference(values(one), values(two)) < 1e-7


def test_rates_of_layer_groups_are_multiples_of_the_rate_of_the_stage():
    one, two = make(), make()
    for model, rate in ((one, 0.3), (two, 0.1)):
        model.compile(LayerwiseOptimizer(SGD(rate), model, decay=0.5), "mse", run_eagerly=EAGER)
    fit(one, StagedTraining([Stage("all", learning_rate=0.1)]), epochs=1)
    fit(two, epochs=1)
    assert difference(values(one), values(two)) < 1e-7


def test_a_fresh_optimizer_keeps_the_start_of_its_penalty():
    model = make()
    optimizer = LayerwiseOptimizer(Adam(0.01), model, penalty=L2SP(0.1, new_strength=0.0))
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    start = values(model)
    fit(model, Restarting([Stage("all", epochs=1), Stage("all")]), epochs=2)
    assert [int(part.iterations) for part in optimizer.group_optimizers()] == [STEPS] * 4
    now = values(model)
    squares = sum(((now[path] - start[path]) ** 2).sum() for path in now if not path.startswith("head"))
    assert optimizer.penalty_value() == pytest.approx(0.05 * squares, rel=1e-5)


@pytest.mark.core
def test_a_loss_scale_begins_again_with_a_fresh_optimizer():
    model = make(keras.optimizers.LossScaleOptimizer(Adam(0.01), initial_scale=8.0, dynamic_growth_steps=3))
    fit(model, Restarting([Stage("head", epochs=1), Stage("all", learning_rate=0.002)]), epochs=2)
    expected = separate_runs((["head"], Adam(0.01)), (NAMES, Adam(0.002)))
    assert difference(values(model), expected) < 1e-5
    assert float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale)) == 16.0


def test_moving_averages_of_a_fresh_optimizer_begin_at_the_weights():
    model, after = make(Adam(0.01, use_ema=True, ema_momentum=0.5)), []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after.append(synced(model)))
    fit(model, Restarting([Stage("low", epochs=1), Stage("head")]), keep, epochs=2)
    now = values(model)
    assert all((now[path] == after[0][path]).all() for path in ("low/kernel", "low/bias", "mid/kernel"))


def test_a_run_that_was_killed_resumes_with_the_same_rates_and_fresh_optimizers(tmp_path):
    class Killed(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.seen = getattr(self.model, "seen", 0) + 1
            if self.model.seen == 7:
                raise KeyboardInterrupt

    def stages():
        return Restarting(
            [
                Stage("head", steps=3, learning_rate=0.01),
                Stage("low", steps=2, learning_rate=0.002),
                Stage("all", learning_rate=SlantedTriangular(0.01, 10)),
            ]
        )

    whole = make()
    fit(whole, stages(), epochs=3)
    for every in (5, 6):  # where a stage begins, and one step later
        folder = tmp_path / str(every)
        with contextlib.suppress(KeyboardInterrupt):
            fit(make(), stages(), TrainingCheckpoint(folder, save_every=every), Killed(), epochs=3)
        model = make()
        fit(model, stages(), TrainingCheckpoint(folder), epochs=3)
        assert difference(values(model), values(whole)) == 0, every


@pytest.mark.parametrize(("losses", "warns"), [([1, 2, 3, 4], True), ([4, 3, 2, 1], False)])
def test_early_stopping_before_the_last_stage_names_it(losses, warns, caplog):
    say = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(val_loss=losses[epoch]))
    stop = keras.callbacks.EarlyStopping(patience=1)
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        fit(make(SGD(0.01)), say, StagedTraining([Stage("head", epochs=2), Stage("all")]), stop, epochs=4)
    message = f"began. Use more `epochs`, or more patience if it stops early: {[NAMES]}"
    assert (message in caplog.text) == warns


# === Mistakes and configs ===


test_a_mistake_in_a_stage_is_an_error = check_errors(
    (lambda: Stage("all", patience=2), TypeError, "`Stage` has no argument `patience`. ... Received: patience=2"),
)


def test_a_config_holds_the_schedule_of_a_stage():
    stage = Stage("head", epochs=2, learning_rate=SlantedTriangular(0.1, 10))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(StagedTraining([stage])))
    assert again.stages[0].get_config() == stage.get_config()
    assert isinstance(again.stages[0].learning_rate, SlantedTriangular)
    assert np.isclose(again.stages[0].learning_rate.peak, 0.1)
