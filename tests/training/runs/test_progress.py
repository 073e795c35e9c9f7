"""The progress of a run: all of its callbacks read one, also after the run was resumed in the middle of an epoch."""

import pytest

from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.training.progress import Progress, RunCallback
from tests.training.resume.checkpoint_runs import BATCHES, crash, fit, linear


class Watch(RunCallback):
    """Notes the epoch, the batches done in it, and those of the whole run, after each step."""

    def __init__(self):
        super().__init__()
        self.seen, self.found = [], None

    def on_train_batch_end(self, batch, logs=None):
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
