"""`TrainingCheckpoint`: an interrupted run resumes with the same result."""

import functools
import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import GradualUnfreezing
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.errors import check_errors
from tests.training.resume.checkpoint_runs import (
    BATCHES,
    OPTIMIZERS,
    Crash,
    X,
    Y,
    assert_same,
    build,
    crash,
    fit,
    linear,
    names,
    whole,
)


def interrupted(folder, make, crashes, callbacks=(), save_every=3, newest=None, **options):
    """Checks that a run with crashes ends with the weights and logs of a run without them, and returns the model.

    `newest` is the place of the newest checkpoint after the last crash.
    """
    whole, model = make(), make()
    whole_logs = fit(whole, *callbacks, **options)
    for step in crashes:
        crash(folder, step, save_every, make=make, callbacks=callbacks, **options)
    assert newest is None or names(folder)[-1] == f"{newest}.safetensors"
    logs = fit(model, *callbacks, TrainingCheckpoint(folder, save_every=save_every), **options)
    assert_same(model, whole)
    # The logs begin with the second epoch, in which it resumes, and include its batches before the crash.
    assert logs == {name: values[1:] for name, values in whole_logs.items()}
    return model


@pytest.mark.parametrize(
    "optimizer",
    ["a schedule", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a scaled loss", "moving averages"))],
)
@pytest.mark.report(
    "The rate jumps, or the order of the data is lost, after a resume.",
    "transformers#34053",
    "transformers#27749",
    "transformers#9099",
    "transformers#33336",
    "Megatron-Bridge#4565",
)
def test_a_crashed_run_resumes_with_the_same_result(optimizer, tmp_path):
    interrupted(tmp_path, lambda: build(OPTIMIZERS[optimizer]), [18])


def test_a_run_by_a_recipe_resumes_within_an_accumulated_gradient(tmp_path):
    make = functools.partial(build, OPTIMIZERS["a recipe that accumulates gradients"])
    interrupted(tmp_path, make, [15], newest="epoch-0001-batch-000005")  # after 15 batches


@pytest.mark.parametrize("optimizer", [pytest.param("accumulated gradients", marks=pytest.mark.slow), "rates by group"])
def test_a_run_that_crashed_in_each_stage_resumes_with_the_same_result(optimizer, tmp_path):
    make = functools.partial(build, OPTIMIZERS[optimizer], run_eagerly=True)
    interrupted(tmp_path, make, [5, 14, 20], [GradualUnfreezing(fraction=0.8)])


@pytest.mark.slow
def test_mixed_precision_resumes_with_its_loss_scale(tmp_path):
    def make():
        adam = keras.optimizers.Adam(1e-2)
        scaled = keras.optimizers.LossScaleOptimizer(adam, 2.0**12, 4)
        return build(lambda model: scaled, policy="mixed_float16")

    assert float(interrupted(tmp_path, make, [17]).optimizer.dynamic_scale) > 2.0**12


@pytest.mark.parametrize("save_every", [pytest.param("epoch", marks=pytest.mark.slow), 4])
def test_several_steps_per_execution_stay_together(save_every, tmp_path):
    newest = f"epoch-0001-batch-00000{0 if save_every == 'epoch' else 8}"
    interrupted(tmp_path, lambda: build(steps_per_execution=4), [18], save_every=save_every, newest=newest)


def test_batches_before_the_checkpoint_are_neither_read_nor_trained_on(tmp_path):
    class Counting(keras.Sequential):
        def train_step(self, data):
            trained.append(data)
            return super().train_step(data)

    def make():
        keras.utils.set_random_seed(0)
        model = Counting([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(3)])
        model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(), run_eagerly=True)
        return model

    trained = []
    crash(tmp_path, 18, make=make)
    assert len(trained) == 18
    trained.clear()
    fit(make(), TrainingCheckpoint(tmp_path))
    assert len(trained) == 12  # after batch 8 of the second epoch


@pytest.mark.slow
def test_changes_by_earlier_callbacks_at_the_start_and_end_of_an_epoch_are_kept(tmp_path):
    class Rates(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 0.01 / (epoch + 1)

        def on_epoch_end(self, epoch, logs=None):
            self.model.layers[0].kernel.assign_add(np.full((4, 8), 0.01))

    interrupted(tmp_path, build, [13], [Rates()], "epoch")


@pytest.mark.slow
def test_validation_does_not_affect_resuming(tmp_path):
    # The run ends after the last batch of an epoch, and before its validation, after which the checkpoint is written.
    options = {"validation_data": (X[:12], Y[:12]), "validation_batch_size": 4}
    interrupted(tmp_path, build, [20], save_every=10, newest="epoch-0001-batch-000000", **options)


def test_resuming_a_complete_run_trains_nothing_and_restores_its_final_weights(tmp_path, caplog):
    whole, model = (build(OPTIMIZERS["moving averages"]) for _ in range(2))
    fit(whole, TrainingCheckpoint(tmp_path, save_every=7))
    assert names(tmp_path)[-1] == "epoch-0003-batch-000000.safetensors"
    assert fit(model, GradualUnfreezing(), TrainingCheckpoint(tmp_path)) == {}
    assert_same(model, whole)
    assert "The run is complete and is not trained further: 3 of 3 epochs" in caplog.text
    # The callback has no effect on the next `fit`, which trains.
    assert len(fit(model, epochs=1)["loss"]) == 1


def test_a_complete_run_continues_with_more_epochs(tmp_path):
    whole, model = linear(), linear()
    fit(whole, epochs=4)
    checkpoint = TrainingCheckpoint(tmp_path)
    assert len(fit(model, checkpoint, epochs=2)["loss"]) == 2
    assert len(fit(model, checkpoint, epochs=4)["loss"]) == 2
    assert_same(model, whole)


def test_fit_begins_in_the_epoch_that_the_callback_sets(tmp_path):
    begun = []
    see = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: begun.append(epoch))
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=2)
    model = linear()
    fit(model, TrainingCheckpoint(tmp_path), see, epochs=5)
    assert begun == [2, 3, 4]
    begun.clear()
    fit(model, see, epochs=2)
    assert begun == [0, 1]


@pytest.mark.slow
def test_a_run_that_another_callback_stops_within_an_epoch_resumes_there(tmp_path):
    def stop(model):
        model.stop_training = True

    model = build()
    fit(build(), Crash(14, stop), TrainingCheckpoint(tmp_path), validation_data=(X, Y))
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors", "epoch-0001-batch-000004.safetensors"]
    fit(model, TrainingCheckpoint(tmp_path))
    assert_same(model, whole())
    # `TrainingCheckpoint` does not notice a later callback that stops the run, so the last checkpoint stays unchanged.
    fit(build(), TrainingCheckpoint(tmp_path / "other"), Crash(14, stop))
    assert names(tmp_path / "other") == ["epoch-0001-batch-000000.safetensors"]


def test_early_stopping_ends_a_run_at_an_epochs_end(tmp_path):
    early = keras.callbacks.EarlyStopping("loss", min_delta=100, patience=1)
    fit(linear(), early, TrainingCheckpoint(tmp_path, save_every=1000), epochs=9)
    assert names(tmp_path) == ["epoch-0002-batch-000000.safetensors"]


def test_other_callbacks_count_the_rest_of_an_epoch_from_0_and_see_the_metrics_of_the_run(crashed):
    def seen(*callbacks):
        found = []
        see = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: found.append((batch, logs["loss"])))
        fit(build(), see, *callbacks)
        return found

    rest = seen()[BATCHES + 8 : 2 * BATCHES]
    assert [(batch + 8, loss) for batch, loss in seen(TrainingCheckpoint(crashed))[:2]] == rest


def test_keras_does_not_warn_that_the_rest_of_an_epoch_is_short(crashed, recwarn):
    fit(build(), TrainingCheckpoint(crashed))
    assert [str(warning.message) for warning in recwarn if "ran out of data" in str(warning.message)] == []


test_wrong_arguments_are_errors = check_errors(
    (
        lambda: TrainingCheckpoint("a", signals=["SIGKILL"]),
        "can be caught, such as 'SIGTERM' or 'SIGINT'. Received: signals=['SIGKILL']",
    ),
    (lambda: TrainingCheckpoint("gs://a/run"), "`folder` must be local. ", "Received: folder='gs://a/run'"),
    (lambda: TrainingCheckpoint(pathlib.Path("gs://a/run")), "Received: folder='gs:/a/run'"),
)


def test_its_config_brings_it_back():
    checkpoint = TrainingCheckpoint("folder", save_every=5, keep=3, signals=("SIGTERM", "SIGINT"), background=True)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(checkpoint))
    assert type(again) is TrainingCheckpoint and again.get_config() == checkpoint.get_config()
    settings = {"folder": "folder", "save_every": 5, "keep": 3, "signals": ["SIGTERM", "SIGINT"], "background": True}
    assert checkpoint.get_config() == settings
