"""What is kept is what was validated, in each combination of means of weights, stages, checkpoints and callbacks."""

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import NonMonotonicTrigger, Stage, StagedTraining, TrainingCheckpoint
from keras_transfer.optimizers import NTASGD, LayerwiseOptimizer
from keras_transfer.training.fitting import fit_in_run
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.training.rows import Rows

# The weight moves from 0 to 1, and the validation prefers 0.4, so that neither the first nor the last epoch is best.
X, Y = np.ones((4, 1), "float32"), np.ones((4, 1), "float32")
BEST = 0.4
VALIDATION = (X, BEST * Y)
EPOCHS = 4


def of_keras():
    return keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.7)


AVERAGES = {
    "no average": lambda: keras.optimizers.SGD(0.1),
    "moving average": of_keras,
    "mean": lambda: NTASGD(0.1),
}
KEPT = ["by fit", "EarlyStopping", "ModelCheckpoint", "by stages", "EarlyStopping in stages"]
MEANS = ("moving average", "mean")


def make(average="moving average"):
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="head")
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(AVERAGES[average](), "mse", run_eagerly=EAGER)
    model.optimizer.build(model.trainable_variables)
    if average == "mean":
        model.optimizer.begin_averaging(model.trainable_variables)
    return model


def fit(model, *callbacks, epochs=EPOCHS, **options):
    options = {"epochs": epochs, "validation_data": VALIDATION, "shuffle": False, "verbose": 0, **options}
    return fit_in_run(model.fit, Rows(X, Y, 2), list(callbacks), options).history["val_loss"]


def loss_of(model):
    return model.evaluate(*VALIDATION, verbose=0)


def best_weights():
    return keras.callbacks.EarlyStopping(patience=EPOCHS, restore_best_weights=True)


def kept_loss(model, kept, folder):
    """Trains a model, and returns the validation losses of its epochs, and the loss of the model that is kept."""
    if kept == "ModelCheckpoint":
        losses = fit(model, keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True))
        return losses, loss_of(keras.saving.load_model(folder / "best.keras"))
    callbacks = [StagedTraining([Stage("all", epochs=2), Stage("all")])] if "stages" in kept else []
    if "EarlyStopping" in kept:
        callbacks.append(best_weights())
    return fit(model, *callbacks), loss_of(model)


@pytest.mark.parametrize(
    "kept", [pytest.param(kept, marks=[pytest.mark.core] * (kept in ("by fit", "EarlyStopping"))) for kept in KEPT]
)
@pytest.mark.parametrize("average", MEANS)
def test_the_model_that_is_kept_is_the_one_that_was_validated(average, kept, tmp_path):
    losses, found = kept_loss(make(average), kept, tmp_path)
    if kept.startswith("by"):
        expected = losses[-1]
    else:
        expected = min(losses)
        assert 0 < np.argmin(losses) < EPOCHS - 1
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("average", MEANS)
def test_a_second_fit_continues_from_the_best_mean_of_the_first(average):
    model, starts = make(average), []

    class Start(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            starts.append(loss_of_weight(self.model))

    losses = fit(model, best_weights())
    fit(model, Start(), epochs=1)
    assert starts[0] == pytest.approx(min(losses), abs=1e-6)


def loss_of_weight(model):
    return (float(keras.ops.convert_to_numpy(model.layers[-1].kernel)[0, 0]) - BEST) ** 2


@pytest.mark.core
@pytest.mark.parametrize("average", MEANS)
def test_a_resumed_run_trains_the_weights_and_not_their_means(average, tmp_path):
    whole = make(average)
    fit(whole)
    for epochs in (2, EPOCHS):
        resumed = make(average)
        fit(resumed, TrainingCheckpoint(tmp_path / "run"), epochs=epochs)
    for ours, expected in zip(
        (*resumed.weights, *resumed.optimizer.variables), (*whole.weights, *whole.optimizer.variables)
    ):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (ours, expected)))


@pytest.mark.parametrize("first", [True, False])
def test_callbacks_of_keras_keep_the_mean_that_the_trigger_validates(first, tmp_path):
    model, stop = make("mean"), best_weights()
    save = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_best_only=True)
    callbacks = [NonMonotonicTrigger(), stop, save]
    callbacks = callbacks if first else callbacks[::-1]
    options = {"epochs": EPOCHS, "batch_size": 2, "validation_data": VALIDATION, "verbose": 0}
    losses = model.fit(X, Y, callbacks=callbacks, **options).history["val_loss"]
    assert 0 < np.argmin(losses) < EPOCHS - 1
    for kept in (model, keras.saving.load_model(tmp_path / "best.keras")):
        assert loss_of(kept) == pytest.approx(min(losses), abs=1e-6)


@pytest.mark.parametrize("wrapper", ["layer groups", "loss scale"])
def test_means_of_a_wrapped_optimizer_are_validated(wrapper):
    model = make("no average")
    optimizer = LayerwiseOptimizer(of_keras(), model)
    if wrapper == "loss scale":
        optimizer = keras.optimizers.LossScaleOptimizer(of_keras(), initial_scale=2.0)
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    losses = fit(model)
    assert losses[-1] == pytest.approx(loss_of(model), abs=1e-6) != pytest.approx(losses[-2], abs=1e-3)


def test_training_continues_with_the_weights_that_trained():
    plain, model, seen = make("no average"), make(), []

    class Weights(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(loss_of_weight(self.model))

    for each in (plain, model):
        fit(each, Weights())
    assert len(seen) == 4 * EPOCHS and seen[: 2 * EPOCHS] == seen[2 * EPOCHS :]


def test_after_an_error_in_the_validation_the_model_has_the_weights_that_trained():
    class Failing(keras.callbacks.Callback):
        def on_test_batch_begin(self, batch, logs=None):
            raise RuntimeError("of a user")

    plain, model = make("no average"), make()
    for each in (plain, model):
        with pytest.raises(RuntimeError, match="of a user"):
            fit(each, Failing())
    assert loss_of(plain) == loss_of(model)


test_callbacks_that_exchange_the_same_weights_are_errors = check_errors(
    (lambda: fit(make(), keras.callbacks.SwapEMAWeights()), "Leave `SwapEMAWeights` out ... ['SwapEMAWeights']"),
    (lambda: fit(make(), keras.callbacks.BackupAndRestore("run")), "use `callbacks.TrainingCheckpoint` instead"),
)
