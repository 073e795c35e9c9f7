"""`TrainingCheckpoint`: the other callbacks of a run that resumes do what they would have done."""

import keras
import numpy as np
import pytest

from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.training.resume.checkpoint_runs import Crash, X, Y, assert_same, fit, linear, names

SHORT = (X[:12], Y[:12])  # three batches; `Crash` counts ten to an epoch
# The figures of the epochs by which the callbacks decide, the same in each run.
SCORES = [3.0, 1.0, 2.0, 2.5, 0.5, 0.6, 0.7, 0.8]


class Scores(keras.callbacks.Callback):
    """Adds a figure to the logs of each epoch."""

    def on_epoch_end(self, epoch, logs=None):
        logs["score"] = SCORES[epoch]


def interrupted(folder, callbacks, steps, save_every=1, optimizer=lambda: None, epochs=8):
    """Two models: at the end of a run with callbacks, and of one that crashed after some steps."""
    whole, model = linear(optimizer()), linear(optimizer())
    fit(whole, Scores(), *callbacks(), data=SHORT, epochs=epochs)
    for step in steps:
        with pytest.raises(KeyError, match="crash"):
            saving = TrainingCheckpoint(folder, save_every=save_every)
            fit(linear(optimizer()), Scores(), *callbacks(), saving, Crash(step), data=SHORT, epochs=epochs)
    fit(model, Scores(), *callbacks(), TrainingCheckpoint(folder), data=SHORT, epochs=epochs)
    return whole, model


@pytest.mark.parametrize(("save_every", "step"), [(1, 32), ("epoch", 32)])
def test_early_stopping_counts_on_and_restores_the_best_weights(save_every, step, tmp_path):
    # The second epoch is the best of the first four. A count that began anew would miss it and go on to the fifth.
    found = []

    def callbacks():
        found.append(keras.callbacks.EarlyStopping("score", mode="min", patience=2, restore_best_weights=True))
        return [found[-1]]

    whole, model = interrupted(tmp_path, callbacks, [step], save_every)
    assert [early.stopped_epoch for early in found] == [3, 0, 3] and found[-1].best_epoch == 1
    assert_same(model, whole)


def early(patience=1):
    return keras.callbacks.EarlyStopping("score", mode="min", patience=patience, restore_best_weights=True)


def test_a_run_that_early_stopping_ended_is_complete(tmp_path, caplog):
    whole, model = linear(), linear()
    fit(whole, Scores(), early(), TrainingCheckpoint(tmp_path), data=SHORT, epochs=8)
    assert fit(model, Scores(), early(), TrainingCheckpoint(tmp_path), data=SHORT, epochs=8) == {}
    assert_same(model, whole)
    assert "The run is complete and is not trained further: 3 of 8 epochs" in caplog.text


def test_with_more_patience_it_continues(tmp_path):
    whole, model = linear(), linear()
    fit(whole, Scores(), early(3), data=SHORT, epochs=6)
    fit(linear(), Scores(), early(), TrainingCheckpoint(tmp_path), data=SHORT, epochs=6)
    assert len(fit(model, Scores(), early(3), TrainingCheckpoint(tmp_path), data=SHORT, epochs=6)["loss"]) == 3
    assert_same(model, whole)


def test_reduce_lr_on_plateau_counts_on(tmp_path):
    def callbacks():
        return [keras.callbacks.ReduceLROnPlateau("score", mode="min", factor=0.5, patience=2, cooldown=1)]

    whole, model = interrupted(tmp_path, callbacks, [32], epochs=5)
    assert float(whole.optimizer.learning_rate) == pytest.approx(0.05)
    assert_same(model, whole)


def test_model_checkpoint_keeps_the_best_model(tmp_path):
    def callbacks():
        path = str(tmp_path / "best.keras")
        return [keras.callbacks.ModelCheckpoint(path, "score", mode="min", save_best_only=True)]

    interrupted(tmp_path / "run", callbacks, [22], epochs=3)
    best, expected = keras.saving.load_model(tmp_path / "best.keras", compile=False), linear()
    fit(expected, data=SHORT, epochs=2)
    for a, b in zip(best.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b))


def test_model_checkpoint_saves_after_the_same_batches(tmp_path):
    folders = iter(["whole", "ours", "ours"])

    def callbacks():
        path = tmp_path / next(folders) / "{epoch}-{batch}.weights.h5"
        return [keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True, save_freq=2)]

    interrupted(tmp_path / "run", callbacks, [12], epochs=2)
    saved = ["1-2.weights.h5", "2-1.weights.h5", "2-3.weights.h5"]
    ours = ["1-2.weights.h5", "2-1.weights.h5"]  # The second of these is the third, of the rest of the epoch.
    assert names(tmp_path / "whole") == saved and names(tmp_path / "ours") == ours
    for name, other in zip(["1-2.weights.h5", "2-3.weights.h5"], ours, strict=True):
        whole, model = linear(), linear()
        whole.load_weights(tmp_path / "whole" / name)
        model.load_weights(tmp_path / "ours" / other)
        assert_same(model, whole)


@pytest.mark.parametrize("save_every", [1, "epoch"])
def test_swapped_averages_are_swapped_back(save_every, tmp_path):
    def callbacks():
        return [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)]

    def averages():
        return keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)

    whole, model = interrupted(tmp_path, callbacks, [12], save_every, averages, epochs=2)
    assert_same(model, whole)


class Counting(keras.callbacks.Callback):
    """A callback of a user, with a state."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def test_a_callback_with_a_state_dict_gets_it_back(tmp_path):
    counting = Counting()
    with pytest.raises(KeyError):
        fit(linear(), Counting(), TrainingCheckpoint(tmp_path, save_every=1), Crash(12), data=SHORT)
    fit(linear(), counting, TrainingCheckpoint(tmp_path), data=SHORT)
    assert counting.seen == 9


def test_a_state_that_is_not_plain_is_an_error_that_names_the_callback(tmp_path):
    class Odd(Counting):
        def state_dict(self):
            return {"seen": self.seen, "model": self.model}

    with pytest.raises(ValueError, match=r"must return numbers.*Received: Sequential for states/callbacks/Odd/0/model"):
        fit(linear(), Odd(), TrainingCheckpoint(tmp_path, save_every=1))


def test_other_callbacks_with_a_state_are_warned_of(tmp_path, caplog):
    fit(linear(), Scores(), TrainingCheckpoint(tmp_path), data=SHORT, epochs=1)
    fit(linear(), Scores(), early(9), TrainingCheckpoint(tmp_path), data=SHORT, epochs=2)
    assert "callbacks.0=EarlyStopping/0 (training checkpoint: None)" in caplog.text
