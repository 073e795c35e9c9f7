"""A callback that writes the state of a run, and continues the run from it after a crash."""

import inspect
import logging
import os
import re
import signal
import threading

import keras

from keras_transfer.batches import batches_of
from keras_transfer.keras_internals import trainer
from keras_transfer.training.resume import checkpoint_files
from keras_transfer.training.resume.callback_state import (
    callback_states,
    ended,
    pause_saving,
    restore_callbacks,
    stateful,
)
from keras_transfer.training.resume.checkpoint_state import (
    check,
    data_state,
    heads_of,
    made_with,
    restore,
    restore_data,
    settings,
    torch_numbers,
    variables_of,
    warn_of_differences,
)
from keras_transfer.training.resume.dataset_state import has_state
from keras_transfer.training.runs import StagedFit, steps, warn_in_epoch

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable("keras_transfer")
class Checkpoint(keras.callbacks.Callback):
    """Writes training checkpoints, and resumes a run bit for bit when the same script runs again.

    A training checkpoint contains all variables of the model (including the states of its seeds), of the optimizer and
    of the metrics, the heads of a task's inactive adapters, the position in the run, the states that determine the
    order of the data, and the states of `StagedTraining`, `EarlyStopping`, `ModelCheckpoint`, `ReduceLROnPlateau`,
    `SwapEMAWeights` and of callbacks with the methods `state_dict` and `load_state_dict`. When a run resumes in the
    middle of an epoch, the earlier batches are read without training. Other callbacks see them. The newest intact
    checkpoint is used; damaged ones are skipped with a warning. A folder belongs to one run, and only one process can
    use it at a time. Once all epochs are complete, or `EarlyStopping` or the `patience` of the last stage has ended the
    run, `fit()` trains nothing. With more `epochs`, or more `patience` of `EarlyStopping`, it continues. If the loss,
    dtype policy, `shuffle`, `class_weight`, a setting of the model that its variables do not show (such as `num_heads`,
    a dropout rate or LoRA's `alpha`) or the plan of which weights train differs, a warning is logged. Resume only
    from folders that you trust: the checksum of a file detects accidental damage, not deliberate changes.

    Resuming is exact if the order of the batches is the same in each run. This holds for `text.batches`, a
    `keras.utils.PyDataset` without worker threads, arrays, and tf.data whose epochs are all alike
    (`reshuffle_each_iteration=False`). The state of a `PyDataset` is what its `state_dict()` returns, or else its
    `epoch` if that can be set, or else all attributes whose values are numbers, strings, lists, dicts, arrays of at
    most 64 MB, or random generators. If a number or the size of a restored attribute differs, a warning is logged.
    Other attributes are compared (larger arrays and memory maps by dtype and shape), and a warning is logged if they
    differ. Attributes that cannot be pickled are not compared. Arrays with `shuffle=True` are exact on JAX and torch,
    and on TensorFlow after `keras.utils.set_random_seed()`, with which Keras draws the same order in each epoch.
    Resuming is not exact if the data continue across epochs (`steps_per_epoch` is shorter than the data) or draw from a
    backend's global generator (`tf.random`). With several replicas, the statistics of batch normalization are those of
    the first replica, as in everything that Keras saves.

    Put this callback last in the list, so that it writes the changes that the other callbacks have made. With several
    machines, each one needs its own folder.

    Args:
        folder: Path of the local folder for the run's checkpoints. It is created if necessary.
        save_every: `"epoch"` or integer. Number of batches between checkpoints. A checkpoint is always written at the
            end of the run. Defaults to `"epoch"`.
        keep: Integer. Number of checkpoints to keep. Defaults to `2`.
        dataset: Object that decides the order of the batches, with `state_dict` and `load_state_dict` or an `epoch`
            that can be set. Defaults to the `PyDataset` that is passed to `fit()`.
        signals: List of strings. Names of signals that end the run with a checkpoint, after the current step or
            validation. `fit()` then returns, and `stopped_by` is the signal's name. A second signal has its usual
            effect. Defaults to `("SIGTERM",)`.

    Raises:
        ValueError: If an argument is invalid. In `fit()`, if the checkpoint belongs to another model, optimizer or
            epoch length, if all checkpoints are damaged, or if a callback with a state follows this one.
        RuntimeError: If another process uses the folder.
        OSError: If the folder cannot be written (before the first step), or the disk is full.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    checkpoint = keras_transfer.adaptation.Checkpoint("run", save_every=100)
    model.fit(np.ones((8, 4)), np.ones((8, 2)), shuffle=False, epochs=2, callbacks=[checkpoint], verbose=0)
    ```
    """

    def __init__(self, folder, save_every="epoch", keep=2, dataset=None, signals=("SIGTERM",)):
        super().__init__()
        if not isinstance(folder, (str, os.PathLike)) or not str(folder):
            raise ValueError(f"`folder` must be the path of a folder. Received: folder={folder!r}")
        if re.match(r"\w[\w+.-]+:/", str(folder)):  # `pathlib` turns two slashes into one.
            raise ValueError(
                "`folder` must be local. Write to a local folder and copy the training checkpoints. "
                f"Received: folder={str(folder)!r}"
            )
        if save_every != "epoch" and not _is_count(save_every):
            raise ValueError(f"`save_every` must be 'epoch' or a positive integer. Received: save_every={save_every!r}")
        if not _is_count(keep):
            raise ValueError(f"`keep` must be a positive integer. Received: keep={keep!r}")
        known = set(signal.Signals.__members__) - {"SIGKILL", "SIGSTOP"}
        signals = [signals] if isinstance(signals, str) else list(signals)
        if unknown := [name for name in signals if name not in known]:
            raise ValueError(f"`signals` must be names of signals that can be caught. Received: {unknown}")
        if dataset is not None and not has_state(dataset):
            raise ValueError(
                "`dataset` must be a `PyDataset`, or have an integer `epoch` that can be set, or the methods "
                f"`state_dict` and `load_state_dict`. Received: dataset={dataset!r:.200}"
            )
        self.folder, self.save_every, self.keep, self.signals = folder, save_every, keep, signals
        self.dataset = dataset
        self.stopped_by = None
        self._previous_handlers = {}

    # === fit ===

    def on_train_begin(self, logs=None):
        self._restore_handlers()  # An earlier `fit` may have failed.
        if not self.model.built:
            raise ValueError(
                f"The model must be built. Build it before `fit()`, or give it an `Input`. Received: {self.model!r}"
            )
        self._steps, self._user_epoch = steps.watch(self.model, self.params), trainer.initial_epoch(self.model)
        self.stopped_by, self._caught, self._resume, self._iterator = None, None, None, None
        self._count, self._stopped, self._ending, self._trained = 0, False, False, None
        self._settings, self._rates = settings(self.model.optimizer)
        self._look_at_fit()
        self._lock = checkpoint_files.prepare(self.folder)
        try:
            stored, self._damaged = checkpoint_files.newest(self.folder)
            if stored is not None:
                self._resume_from(stored)
        except BaseException:
            self._lock.release()
            raise
        self._catch_signals()

    def _look_at_fit(self):
        """Looks up what Keras does not pass to callbacks: the data, other callbacks, and what influences the result."""
        fit = trainer.arguments_of_fit(self.model, inspect.currentframe()) or {}
        given = batches_of(fit.get("x"))
        given = given if isinstance(given, keras.utils.PyDataset) else None
        self._data = given if self.dataset is None else self.dataset
        listed = getattr(fit.get("callbacks"), "callbacks", [])
        place = listed.index(self) if self in listed else len(listed)
        self._others, behind = listed[:place], stateful(listed[place + 1 :])
        if behind:
            raise ValueError(
                "Put `Checkpoint` last in the list of callbacks, so that it writes the state of the others. "
                f"Received: {', '.join(type(callback).__name__ for callback in behind.values())} after it"
            )
        # `_trains` covers the stages.
        others = [name for name, other in stateful(self._others).items() if not isinstance(other, StagedFit)]
        self._made_with = made_with(self.model, fit, self.params.get("steps"), others)

    def on_epoch_begin(self, epoch, logs=None):
        trainer.set_initial_epoch(self.model, self._user_epoch)  # `fit` has already read this.
        self._epoch, self._seen = epoch, 0
        if self._trained is not None:
            warn_of_differences(self._trains(), self._trained)
            self._trained = None
        warn_in_epoch(self, epoch)
        if self._resume is not None:
            state = self._resume.state
            if epoch != state["epoch"]:
                raise ValueError(
                    f"The training checkpoint resumes in epoch {state['epoch']}, counted from 0. Do not pass "
                    f"`initial_epoch`. Received: epoch {epoch}"
                )
            restore_data(self._resume, self._data)
        self._beginning = data_state(self._data)

    def on_train_batch_begin(self, batch, logs=None):
        self._steps.announce()
        if self._resume is not None:
            # The last of these batches is trained on, so that Keras creates what a step creates (metrics on
            # TensorFlow). The effect of this step is undone.
            self._steps.skipping = batch + self._steps.model.steps_per_execution < self._resume.state["batch"]

    def on_train_batch_end(self, batch, logs=None):
        if batch < self._steps.model.steps_per_execution:
            self._check_iterator()
        done, self._seen = batch + 1 - self._seen, batch + 1
        if self._resume is not None:
            self._pass_over(logs)
            return
        before, self._count = self._count, self._count + done
        due = self.save_every != "epoch" and self._count // self.save_every > before // self.save_every
        ends = self._steps.model.stop_training and self._seen != self.params.get("steps")
        if due or ends or self._caught:
            self._save(self._epoch, self._seen, self._beginning)
            self._stopped = bool(ends or self._caught)
            self._stop_if_caught()

    def on_epoch_end(self, epoch, logs=None):
        if self._resume is not None and self.model.stop_training:  # another callback ended the run
            self._continue()
        if self._resume is not None:
            raise ValueError(
                f"The training checkpoint was written after batch {self._resume.state['batch']} of an epoch. The data "
                f"must have at least as many batches. Received: data of {self._seen} batches"
            )
        last = epoch + 1 == self.params["epochs"] or self.model.stop_training or self._caught
        cut = self.model.stop_training and self._seen < (self.params.get("steps") or 0)
        if (self.save_every == "epoch" or last) and not self._stopped and not cut:
            self._save(epoch + 1, 0, data_state(self._data))
        self._stop_if_caught()

    def on_train_end(self, logs=None):
        trainer.set_initial_epoch(self._steps.model, self._user_epoch)
        self._restore_handlers()
        self._steps.leave(self)
        self._lock.release()
        self._steps = self._resume = self._iterator = self._data = self._others = None

    # === Writing ===

    def _save(self, epoch, batch, data):
        steps.sync(self.model)
        data, arrays = data
        state = {
            "epoch": epoch,
            "batch": batch,
            "count": self._count,
            "run": self._made_with,
            "data": data,
            "torch": torch_numbers(),
            "trains": self._trains(),
            "optimizer": self._settings,
            "rates": [self._rates, settings(self.model.optimizer)[1]],
        }
        variables = variables_of(self.model, "model", "optimizer", "metrics") | heads_of(self.model) | arrays
        variables |= {f"callbacks/{name}": content for name, content in callback_states(self._others).items()}
        path = checkpoint_files.write(self.folder, epoch, batch, state, variables)
        checkpoint_files.prune(self.folder, self.keep, [old for old in self._damaged if old != path])
        self._damaged = []

    def _trains(self):
        """Returns which weights train in which stage, as JSON values."""
        staged = [callback for callback in self._steps.contexts if isinstance(callback, StagedFit)]
        return {
            "weights": [weight.path for weight in self.model.trainable_weights],
            "stages": [[start, list(names)] for callback in staged for start, names in callback.schedule],
        }

    # === Resuming ===

    def _resume_from(self, stored):
        """Checks a training checkpoint against this run and restores it, or prepares to do so after some batches."""
        state, epochs = stored.state, self.params["epochs"]
        check(self.model, stored, self._made_with)
        epoch, batch, self._trained = state["epoch"], state["batch"], state["trains"]
        self._settings, self._rates, self._count = state["optimizer"], state["rates"][0], state["count"]
        self._restore_callbacks(stored)
        if epoch >= epochs or ended(self._others):
            log.warning(
                "The run is complete and is not trained further: %d of %d epochs: %s", epoch, epochs, stored.path
            )
            epoch = max(epoch, epochs)
        else:
            place = f", after batch {batch}" if batch else ""
            log.warning("Resuming from epoch %d of %d%s: %s", epoch + 1, epochs, place, stored.path)
        if batch and epoch < epochs:
            self._resume = stored
            pause_saving(self._others)
        else:
            restore(self.model, stored, metrics=False)
            restore_data(stored, self._data)
        trainer.set_initial_epoch(self.model, epoch)

    def _pass_over(self, logs):
        batch = self._resume.state["batch"]
        if self._seen > batch:
            raise ValueError(
                f"The training checkpoint was written after batch {batch}, where a step must end. Use the same "
                f"`steps_per_execution` as before. Received: steps_per_execution={self.model.steps_per_execution}"
            )
        # A callback that ends the run has to wait: Keras cannot end an epoch without a step.
        self._ending, self.model.stop_training = self._ending or self.model.stop_training, False
        if self._seen == batch:
            self.model.stop_training = self._ending
            self._continue(metrics=True)
            if logs:  # The metrics of this step are undone.
                logs.update(self.model.get_metrics_result())
            self._stop_if_caught()

    def _continue(self, metrics=False):
        """Restores the state in the middle of an epoch. From now on, the steps belong to the run."""
        steps.sync(self.model)
        restore(self.model, self._resume, metrics)
        self._restore_callbacks(self._resume)
        self._resume, self._steps.skipping = None, False
        self._stopped = bool(self._caught or self.model.stop_training)

    def _restore_callbacks(self, stored):
        names = {name for name in stored.tensors if name.startswith("callbacks/")}
        restore_callbacks(
            self._others, lambda name: stored.read(f"callbacks/{name}") if f"callbacks/{name}" in names else None
        )

    def _check_iterator(self):
        iterator = self._steps.iterator
        if self._iterator is not None and iterator is self._iterator:
            log.warning(
                "The iterator of the data is not restarted in each epoch. A resumed run reads the data from their "
                "beginning, not from where the epoch began."
            )
        self._iterator = iterator

    # === Signals ===

    def _catch_signals(self):
        if not self.signals:
            return
        if threading.current_thread() is not threading.main_thread():
            log.warning(
                "Signals can be caught only in the main thread. No training checkpoint is written on %s.", self.signals
            )
            return
        for number in (signal.Signals[name] for name in self.signals):
            if signal.getsignal(number) is None:
                log.warning(
                    "%s has a handler outside Python. No training checkpoint is written on this signal.", number.name
                )
            else:
                self._previous_handlers[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number, frame):
        # An error in another callback ends `fit`, so only the call stack shows whether `fit` is still running.
        if self._caught is None and trainer.arguments_of_fit(self._steps.model, frame) is not None:
            self._caught = signal.Signals(number).name
        else:
            self._restore_handlers()
            signal.raise_signal(number)

    def _restore_handlers(self):
        while self._previous_handlers:
            number, handler = self._previous_handlers.popitem()
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, handler)

    def _stop_if_caught(self):
        if self._caught and self.stopped_by is None:
            self.stopped_by, self.model.stop_training = self._caught, True
            log.warning("%s: the run stops. To resume it, start it again with the folder %s", self._caught, self.folder)

    def get_config(self):
        return {
            "folder": str(self.folder),
            "save_every": self.save_every,
            "keep": self.keep,
            "signals": list(self.signals),
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
