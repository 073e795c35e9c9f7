"""The progress of a run: all of its callbacks read one, also after the run was resumed in the middle of an epoch."""

import inspect

import keras
import pytest

import keras_transfer as kt
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.training.progress import Progress, RunCallback
from keras_transfer.training.stages import Stages
from tests.training.resume.checkpoint_runs import BATCHES, crash, fit, linear


class Watch(RunCallback):
    """Notes the epoch, the batches done in it, and those of the whole run, after each step."""

    def __init__(self):
        super().__init__()
        self.seen, self.found = [], None

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch)
        self.found = self.progress
        self.seen.append((self.found.epoch, self.found.first, self.found.batch, self.found.count))


def test_callbacks_of_a_run_that_resumes_in_an_epoch_read_where_it_goes_on(tmp_path):
    crash(tmp_path, BATCHES + 5, make=linear)  # It writes a checkpoint after every third batch.
    watch, other, progress = Watch(), Watch(), Progress()
    fit(linear(), progress, watch, other, TrainingCheckpoint(tmp_path), epochs=2)
    assert watch.seen == other.seen and watch.found is other.found is progress
    assert watch.seen == [(1, 5, place, BATCHES + place) for place in range(6, BATCHES + 1)]


def test_an_epoch_ends_early_only_if_it_began_with_a_later_batch():
    progress = Progress()
    progress.set_params({"steps": 4, "epochs": 2})
    progress.set_model(linear())
    progress.resume(1, 3, 7)
    progress.on_epoch_begin(0)
    progress.on_train_batch_begin(9)
    progress.on_epoch_begin(1)
    progress.on_train_batch_begin(0)
    with pytest.raises(StopIteration):
        progress.on_train_batch_begin(1)


class Counts(Progress):
    """Counts the events that reach it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.events = {"epochs": 0, "batches": 0}

    def on_epoch_begin(self, epoch, logs=None):
        self.events["epochs"] += 1
        super().on_epoch_begin(epoch)

    def on_train_batch_end(self, batch, logs=None):
        self.events["batches"] += 1
        super().on_train_batch_end(batch)


def test_each_event_of_a_plain_fit_reaches_the_progress_once(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        "keras_transfer.training.progress.Progress", lambda **options: made.append(Counts(**options)) or made[-1]
    )
    callbacks = [kt.callbacks.GradualUnfreezing(), Watch(), Watch()]
    checkpoint = TrainingCheckpoint(tmp_path, callbacks=callbacks)
    fit(linear(), *callbacks, checkpoint, epochs=2)
    (progress,) = made
    assert progress.events == {"epochs": 2, "batches": 2 * BATCHES}
    assert progress.count == 2 * BATCHES and callbacks[1].seen == callbacks[2].seen


def test_a_callback_before_the_one_that_resumes_the_run_reads_what_a_later_one_reads(tmp_path):
    crash(tmp_path, BATCHES + 5, make=linear)
    watch, other = Watch(), Watch()
    fit(linear(), watch, TrainingCheckpoint(tmp_path), other, epochs=2)
    assert watch.seen == other.seen == [(1, 5, place, BATCHES + place) for place in range(6, BATCHES + 1)]


def test_the_next_stage_does_not_begin_at_the_end_of_an_epoch_that_was_resumed(tmp_path):
    def stages():
        return kt.callbacks.StagedTraining([kt.callbacks.Stage("all", epochs=1) for _ in range(3)])

    crash(tmp_path, BATCHES + 5, make=linear, callbacks=[stages()])
    callback, seen = stages(), []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append((epoch, callback.stage)))
    fit(linear(), callback, TrainingCheckpoint(tmp_path), note)
    assert seen == [(1, 1), (2, 2)]


class Closes(RunCallback):
    """Fails when it is closed."""

    closed = False

    def close(self):
        self.closed = True
        raise RuntimeError("close")


def test_all_callbacks_are_closed_even_if_this_fails_for_some():
    callbacks = [Closes(), Closes()]
    with pytest.raises(RuntimeError, match="close"), Progress(callbacks=callbacks):
        pass
    assert all(callback.closed for callback in callbacks)


def subclasses(kind):
    return {kind, *(other for each in kind.__subclasses__() for other in subclasses(each))}


def test_callbacks_call_the_methods_of_their_base_that_they_override():
    ours = [kind for kind in subclasses(RunCallback) - {RunCallback} if kind.__module__.startswith("keras_transfer.")]
    assert {TrainingCheckpoint, Stages} <= set(ours)
    for kind in ours:
        for name in {"on_epoch_begin", "on_train_batch_begin", "on_train_batch_end"} & set(vars(kind)):
            assert f"super().{name}(" in inspect.getsource(vars(kind)[name]), (kind, name)
