"""Stages with their own learning rate, a fresh optimizer, an end that the metrics decide, and the best weights."""

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
from tests.tasks import tiny
from tests.training.runs.staging_models import NAMES, STEPS, X, Y, changed, difference, fit, make, synced, values

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


class Say(keras.callbacks.Callback):
    """Makes the loss of the validation data what a test wants, and keeps the weights of each epoch."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.before, self.after = losses, [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.before.append(synced(self.model))

    def on_epoch_end(self, epoch, logs=None):
        self.after.append(synced(self.model))
        logs["val_loss"] = self.losses[epoch]


# === Learning rates and fresh optimizers ===


@pytest.mark.core
def test_stages_with_fresh_optimizers_and_rates_are_separate_runs():
    model = make(Adam(0.5))
    stages = [
        Stage("head", epochs=1, learning_rate=0.01, fresh_optimizer=True),
        Stage(["low", "mid"], epochs=1, learning_rate=0.002, fresh_optimizer=True),
        Stage("all", learning_rate=0.005, fresh_optimizer=True),
    ]
    fit(model, StagedTraining(stages), epochs=3)
    expected = separate_runs((["head"], Adam(0.01)), (["low", "mid"], Adam(0.002)), (NAMES, Adam(0.005)))
    assert difference(values(model), expected) < 1e-6
    assert float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)) == 0.5
    assert int(model.optimizer.iterations) == STEPS


def test_a_fresh_optimizer_restarts_its_schedule_without_a_warning(caplog):
    model = make(SGD(SlantedTriangular(0.2, STEPS, cut_fraction=0.5)))
    stages = [Stage("head", epochs=1, fresh_optimizer=True), Stage("all", fresh_optimizer=True)]
    fit(model, StagedTraining(stages), epochs=2)
    triangles = [SGD(SlantedTriangular(0.2, STEPS, cut_fraction=0.5)) for _ in range(2)]
    expected = separate_runs((["head"], triangles[0]), (NAMES, triangles[1]))
    assert difference(values(model), expected) < 1e-6
    assert "ends at step" not in caplog.text


@pytest.mark.core
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


@pytest.mark.core
def test_a_fresh_optimizer_keeps_the_start_of_its_penalty():
    model = make()
    optimizer = LayerwiseOptimizer(Adam(0.01), model, penalty=L2SP(0.1, new_strength=0.0))
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    start = values(model)
    fit(model, StagedTraining([Stage("all", epochs=1), Stage("all", fresh_optimizer=True)]), epochs=2)
    assert [int(part.iterations) for part in optimizer.group_optimizers()] == [STEPS] * 4
    now = values(model)
    squares = sum(((now[path] - start[path]) ** 2).sum() for path in now if not path.startswith("head"))
    assert optimizer.penalty_value() == pytest.approx(0.05 * squares, rel=1e-5)


@pytest.mark.core
def test_a_loss_scale_begins_again_with_a_fresh_optimizer():
    model = make(keras.optimizers.LossScaleOptimizer(Adam(0.01), initial_scale=8.0, dynamic_growth_steps=3))
    fit(
        model,
        StagedTraining([Stage("head", epochs=1), Stage("all", learning_rate=0.002, fresh_optimizer=True)]),
        epochs=2,
    )
    expected = separate_runs((["head"], Adam(0.01)), (NAMES, Adam(0.002)))
    assert difference(values(model), expected) < 1e-5
    assert float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale)) == 16.0


@pytest.mark.core
def test_moving_averages_of_a_fresh_optimizer_begin_at_the_weights():
    model, say = make(Adam(0.01, use_ema=True, ema_momentum=0.5)), Say([0, 0])
    fit(model, StagedTraining([Stage("low", epochs=1), Stage("head", fresh_optimizer=True)]), say, epochs=2)
    after, now = say.after[0], values(model)
    assert all((now[path] == after[path]).all() for path in ("low/kernel", "low/bias", "mid/kernel"))


def test_a_run_that_was_killed_resumes_with_the_same_rates_and_fresh_optimizers(tmp_path):
    class Killed(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.seen = getattr(self.model, "seen", 0) + 1
            if self.model.seen == 7:
                raise KeyboardInterrupt

    def stages():
        return StagedTraining(
            [
                Stage("head", steps=3, learning_rate=0.01, fresh_optimizer=True),
                Stage("low", steps=2, learning_rate=0.002, fresh_optimizer=True),
                Stage("all", learning_rate=SlantedTriangular(0.01, 10), fresh_optimizer=True),
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


# === Until nothing improves ===


LOSSES = [3, 2, 2.5, 5, 6, 1, 1, 2, 3, 4, 5]


def until_best():
    stages = [Stage("head", patience=1, restore_best=True), Stage("low", epochs=2, fresh_optimizer=True)]
    return StagedTraining([*stages, Stage("all", patience=3, restore_best=True)])


def fit_until_best(model, stages, *callbacks):
    """Trains for nine epochs of two batches: three in the first stage, two in the second and four in the last."""
    return fit(model, Say(LOSSES), stages, *callbacks, epochs=11, batch_size=8).history


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A whole run that its last stage ended: the history, the stages, the weights and the folder of its checkpoints."""
    folder, model, stages = tmp_path_factory.mktemp("ended"), make(), until_best()
    history = fit_until_best(model, stages, TrainingCheckpoint(folder))
    assert len(history["loss"]) == 9 and stages.over
    return stages, values(model), folder


class KilledIn(keras.callbacks.Callback):
    """Ends the run after the first batch of an epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.last = epoch

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == self.last:
            raise KeyboardInterrupt


# Either resumes where an epoch begins, which may be the first or last of a stage, or in the middle of one.
@pytest.mark.parametrize(("save_every", "epochs"), [pytest.param("epoch", [3, 8], marks=pytest.mark.core), (1, [2, 7])])
def test_stages_with_patience_resume_where_they_were(save_every, epochs, ended, tmp_path, caplog):
    expected, weights, _ = ended
    for epoch in epochs:
        with pytest.raises(KeyboardInterrupt):
            saving = TrainingCheckpoint(tmp_path, save_every=save_every)
            fit_until_best(make(), until_best(), saving, KilledIn(epoch))
    model, stages = make(), until_best()
    fit_until_best(model, stages, TrainingCheckpoint(tmp_path, save_every=save_every))
    assert stages.schedule == expected.schedule and stages.over
    assert difference(values(model), weights) == 0
    assert "may differ" not in caplog.text


def test_a_run_that_the_last_stage_ended_is_complete(ended, caplog):
    _, weights, folder = ended
    model = make()
    assert fit_until_best(model, until_best(), TrainingCheckpoint(folder)) == {}
    assert difference(values(model), weights) == 0
    assert "The run is complete and is not trained further: 9 of 11 epochs" in caplog.text


@pytest.mark.parametrize("options", [{"patience": 1}, {"restore_best": True}], ids=str)
def test_a_stage_waits_for_the_validation_of_a_later_epoch(options):
    plan = StagedTraining([Stage("head", epochs=2, **options), Stage("all")])
    history = fit(make(SGD(0.1)), plan, epochs=4, validation_data=(X, Y), validation_freq=2).history
    assert len(history["loss"]) == 4 and len(history["val_loss"]) == 2


@pytest.mark.core
def test_a_stage_of_another_model_than_a_task_that_is_never_validated_warns(caplog):
    fit(make(SGD(0.1)), StagedTraining([Stage("head", patience=1), Stage("all")]), epochs=1)
    assert "A stage waits for 'val_loss', but this epoch was not validated" in caplog.text


def test_a_misspelt_metric_is_an_error_in_the_first_epoch_that_validates():
    plan = StagedTraining([Stage("head", patience=1, monitor="val_los"), Stage("all")])
    with pytest.raises(ValueError, match=r"Expected one of \['loss', 'val_loss'\]. Received: monitor='val_los'"):
        fit(make(SGD(0.1)), plan, epochs=4, validation_data=(X, Y), validation_freq=2)


@pytest.mark.core
def test_a_stage_ends_when_nothing_improves_and_the_last_one_ends_the_run():
    model = make(SGD(0.01))
    say = Say([3, 2, 2.5, 2.6, 5, 4, 3, 1, 2, 0, 0])
    stages = StagedTraining([Stage("head", patience=2), Stage("low", epochs=3, patience=2), Stage("all", patience=1)])
    seen = []
    look = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(list(stages.schedule)))
    history = fit(model, say, stages, look, epochs=11).history
    assert len(history["loss"]) == 9
    assert [starts[1][0] for starts in seen] == [None] * 4 + [4 * STEPS] * 5
    assert [start for start, _ in stages.schedule] == [0, 4 * STEPS, 7 * STEPS]
    moved = [{path.split("/")[0] for path in changed(a, b)} for a, b in zip(say.before, say.after)]
    assert moved == [{"head"}] * 4 + [{"low"}] * 3 + [set(NAMES)] * 2


@pytest.mark.core
def test_each_stage_ends_with_the_weights_of_its_best_epoch():
    model, say = make(SGD(0.01)), Say([3, 2, 2.5, 5, 6, 1, 1, 2, 3])
    stages = [Stage("head", patience=1, restore_best=True), Stage("low", epochs=2, restore_best=True)]
    last = Stage("all", restore_best=True)
    fit(model, say, StagedTraining([*stages, last]), epochs=9)
    assert difference(say.before[3], say.after[1]) == 0  # not of the third epoch
    assert difference(say.before[5], say.after[3]) == 0
    assert difference(values(model), say.after[5]) == 0 < difference(values(model), say.after[8])


def test_a_run_that_another_callback_ends_has_the_best_weights():
    model, say = make(SGD(0.01)), Say([1, 2, 3, 4])
    stop = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epoch == 2 and setattr(model, "stop_training", True)
    )
    fit(model, say, StagedTraining([Stage("all", restore_best=True)]), stop, epochs=4)
    assert len(say.after) == 3 and difference(values(model), say.after[0]) == 0


def test_a_run_that_ends_too_early_names_the_stages_that_never_began(caplog):
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        fit(make(SGD(0.01)), Say([3, 2, 1]), StagedTraining([Stage("head", patience=1), Stage("all")]), epochs=3)
    assert f"began. Use more `epochs`, or more patience if it stops early: {[NAMES]}" in caplog.text


def test_early_stopping_before_the_last_stage_names_it(caplog):
    stages = StagedTraining([Stage("head", epochs=2), Stage("all")])
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        fit(make(SGD(0.01)), Say([1, 2, 3, 4]), stages, keras.callbacks.EarlyStopping(patience=1), epochs=4)
        assert f"began. Use more `epochs`, or more patience if it stops early: {[NAMES]}" in caplog.text
        caplog.clear()
        fit(make(SGD(0.01)), Say([4, 3, 2, 1]), stages, keras.callbacks.EarlyStopping(patience=1), epochs=4)
    assert "these stages began" not in caplog.text


def test_a_stage_can_wait_for_real_validation_data():
    model = make(SGD(0.1))
    plan = StagedTraining([Stage("head", patience=1, monitor="loss"), Stage("all")])
    fit(model, plan, epochs=3, validation_data=(X, Y))
    assert plan.schedule[0] == (0, ["head"])


# === Mistakes and configs ===


def test_a_metric_that_is_missing_is_an_error():
    plan = StagedTraining([Stage("head", patience=1), Stage("all")])
    model = tiny.two_blocks()
    model.compile("sgd", run_eagerly=EAGER)
    with pytest.raises(ValueError, match=r"Pass `validation_data`.*Expected one of \['accuracy', 'loss'\].*'val_loss'"):
        model.fit(*tiny.examples(4), epochs=2, verbose=0, callbacks=[plan])
    assert len(model.trainable_weights) == len(tiny.two_blocks().trainable_weights)


def test_a_metric_without_a_direction_is_an_error():
    plan = StagedTraining([Stage("head", patience=1, monitor="val_mine"), Stage("all")])
    say = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(val_mine=1.0))
    with pytest.raises(ValueError, match="whether it should rise or fall. Received: monitor='val_mine'"):
        fit(make(SGD(0.1)), say, plan)


def test_a_stage_without_a_length_beside_one_that_waits_is_an_error():
    plan = StagedTraining([Stage("head", patience=1), Stage("low"), Stage("all")])
    with pytest.raises(ValueError, match="share the rest of the run. Set their `epochs`. Received: Stage.train='low'"):
        fit(make(SGD(0.1)), plan)


test_a_mistake_in_a_stage_is_an_error = check_errors(
    (lambda: Stage("all", learning_rate=-1), "`learning_rate` must be a number of at least 0 or a ", "_rate=-1"),
    (lambda: Stage("all", learning_rate="0.1"), "`learning_rate` must be"),
    (lambda: Stage("all", learning_rate=float("nan")), "`learning_rate` must be"),
    (lambda: Stage("all", fresh_optimizer=1), "`fresh_optimizer` must be a boolean. Received: fresh_optimizer=1"),
    (lambda: Stage("all", restore_best="yes"), "`restore_best` must be a boolean"),
    (lambda: Stage("all", patience=0), "`patience` must be a positive integer. Received: 0"),
    (lambda: Stage("all", monitor=None), "`monitor` must be the name of a metric. Received: monitor=None"),
)


def test_a_config_holds_all_options():
    rate = SlantedTriangular(0.1, 10)
    stage = Stage(
        "head", epochs=2, learning_rate=rate, fresh_optimizer=True, patience=3, restore_best=True, monitor="val_acc"
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(StagedTraining([stage])))
    assert again.stages[0].get_config() == stage.get_config()
    assert isinstance(again.stages[0].learning_rate, SlantedTriangular)
    assert np.isclose(again.stages[0].learning_rate.peak, 0.1) and again.stages[0].patience == 3
