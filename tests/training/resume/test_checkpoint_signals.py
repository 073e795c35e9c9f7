"""`TrainingCheckpoint`: a signal ends the run with a checkpoint, and the original handler is restored afterwards."""

import signal
import threading

import keras
import pytest

from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.training.resume.checkpoint_runs import (
    Crash,
    X,
    Y,
    assert_same,
    build,
    crash,
    fit,
    linear,
    names,
    term,
    whole,
)


@pytest.fixture
def handler():
    """Installs a handler of SIGTERM that records its calls."""
    calls = []

    def count(number, frame):
        calls.append(number)

    before = signal.signal(signal.SIGTERM, count)
    yield count, calls
    signal.signal(signal.SIGTERM, before)


def test_a_signal_within_an_epoch_writes_a_checkpoint_and_ends_the_run(tmp_path, caplog, handler):
    model = build()
    stopped, checkpoint = build(), TrainingCheckpoint(tmp_path)
    logs = fit(stopped, Crash(14, term), checkpoint, validation_data=(X, Y))
    assert checkpoint.stopped_by == "SIGTERM" and len(logs["val_loss"]) == 2
    # There is no checkpoint of the end of the second epoch, although Keras validates and calls `on_epoch_end`.
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors", "epoch-0001-batch-000004.safetensors"]
    assert [r.message for r in caplog.records] == [
        f"SIGTERM: the run stops. To resume it, start it again with the folder {tmp_path}"
    ]
    assert signal.getsignal(signal.SIGTERM) is handler[0] and handler[1] == []
    fit(model, TrainingCheckpoint(tmp_path))
    assert_same(model, whole())


@pytest.mark.slow
def test_a_signal_during_validation_ends_the_run_at_the_end_of_the_epoch(tmp_path, handler):
    model = build()
    in_validation = keras.callbacks.LambdaCallback()
    in_validation.on_test_batch_end = lambda batch, logs=None: None if batch else term(None)
    checkpoint = TrainingCheckpoint(tmp_path, save_every=1000)
    fit(build(), checkpoint, in_validation, validation_data=(X, Y))
    assert checkpoint.stopped_by == "SIGTERM" and names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]
    fit(model, TrainingCheckpoint(tmp_path))
    assert_same(model, whole())


@pytest.mark.core
def test_a_signal_within_a_step_writes_a_checkpoint_after_it(tmp_path, handler):
    # On JAX, a step has deleted the values that the variables still refer to.
    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                term(None)

    checkpoint, model, expected = TrainingCheckpoint(tmp_path), linear(), linear()
    fit(model, Interrupt(), checkpoint, epochs=1)
    assert checkpoint.stopped_by == "SIGTERM" and names(tmp_path) == ["epoch-0000-batch-000002.safetensors"]
    again = linear()
    fit(again, TrainingCheckpoint(tmp_path), epochs=1)
    fit(expected, epochs=1)
    assert_same(again, expected)


def test_after_a_run_that_another_callback_ended_with_an_error_a_signal_acts_as_ever(tmp_path, handler):
    crash(tmp_path, 4, make=linear)
    term(None)
    assert handler[1] == [signal.SIGTERM]


def test_a_second_signal_reaches_the_original_handler(tmp_path, handler):
    def twice(model):
        term(model)
        term(model)

    fit(linear(), Crash(4, twice), TrainingCheckpoint(tmp_path))
    assert handler[1] == [signal.SIGTERM] and names(tmp_path) == ["epoch-0000-batch-000004.safetensors"]


def test_the_signal_handler_is_restored_after_a_failed_step(tmp_path, handler):
    class Failing(keras.Sequential):
        def train_step(self, data):
            raise KeyError("step")

    model = Failing([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(KeyError, match="step"), TrainingCheckpoint(tmp_path) as checkpoint:
        fit(model, checkpoint)
    term(None)
    assert handler[1] == [signal.SIGTERM] and signal.getsignal(signal.SIGTERM) is handler[0]


def test_outside_the_main_thread_it_logs_that_it_catches_no_signals(tmp_path, caplog, handler):
    model = linear()
    thread = threading.Thread(target=lambda: fit(model, TrainingCheckpoint(tmp_path), epochs=1))
    thread.start()
    thread.join()
    assert "only in the main thread. No training checkpoint is written on ['SIGTERM']" in caplog.text
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]
