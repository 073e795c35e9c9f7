"""A callback that saves the state of a run, and resumes the run from it after a crash."""

import contextlib
import logging
import math
import os
import re
import signal
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import FLAG, Rule, expect, expects, integer
from keras_transfer.distribute import gather, processes_of
from keras_transfer.keras_internals import trainer
from keras_transfer.training.checkpoint_files import CheckpointFolder
from keras_transfer.training.progress import RunCallback, sync
from keras_transfer.training.run_identity import check, describe, rates_of
from keras_transfer.training.run_state import RunState, has_state

log = logging.getLogger("keras_transfer")
AGREE_EVERY = 8  # Number of batches between exchanges of signals among processes, each of which waits for the devices.
CATCHABLE = set(signal.Signals.__members__) - {"SIGKILL", "SIGSTOP"}


@keras.saving.register_keras_serializable(package="keras_transfer")
class TrainingCheckpoint(RunCallback):
    """Writes training checkpoints, and resumes a run bit for bit when the same script runs again.

    Like `keras.callbacks.BackupAndRestore`, but exact: a checkpoint contains the variables of the model, the optimizer
    and the metrics, the random numbers, and the states of the data and of the other callbacks. `fit()` of a task passes
    its data and callbacks on. For another model, pass `data` and `callbacks`, put this callback last, and pass
    `shuffle=False` to `fit()` with batches that shuffle themselves. A run resumes within an epoch if the state of its
    data has a `"batch"`, as in `text.batches`, and otherwise at the start of the epoch.

    Args:
        folder: String or path. Local folder for the run's checkpoints, which is created if necessary. A folder belongs
            to one run, and only one process can use it at a time.
        save_every: `"epoch"` or integer. Number of batches between checkpoints. A checkpoint is always written at the
            end of the run. Defaults to `"epoch"`.
        keep: Integer. Number of checkpoints to keep. Defaults to `2`.
        data: Object that determines the order of the batches, with `state_dict` and `load_state_dict`. Defaults to
            `None`, the data of a task's `fit()`.
        callbacks: List of the other callbacks of the run. Defaults to `None`, the callbacks of a task's `fit()`.
        signals: List of strings. Names of signals that end the run with a checkpoint, after the current step or
            validation. `fit()` then returns, and `stopped_by` is the signal's name. A second signal has its usual
            effect. Defaults to `("SIGTERM",)`.
        background: Boolean. Whether training continues while a checkpoint is written. It then pauses only while the
            variables are copied, which needs memory for the copy. If writing fails, the error is raised when the next
            checkpoint is due, or at the end of `fit()`. Defaults to `False`.

    Attributes:
        stopped_by: String. Name of the signal that ended the run, or `None`.

    Raises:
        ValueError: If an argument is invalid. In `fit()`, if the checkpoint belongs to a different model, optimizer or
            epoch length, or to the same classes in another order, if its epoch has begun with other data, if all
            checkpoints are damaged, or if `steps_per_epoch` is not the number of batches of the data.
        RuntimeError: If another process uses the folder.
        OSError: If the folder cannot be written (before the first step), or the disk is full.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    checkpoint = keras_transfer.callbacks.TrainingCheckpoint("run", callbacks=[])
    model.fit(np.ones((8, 4)), np.ones((8, 2)), shuffle=False, epochs=2, callbacks=[checkpoint], verbose=0)
    ```
    """

    @expects(
        folder=Rule("the path of a folder", lambda value: isinstance(value, (str, os.PathLike)) and value != "", ("",)),
        save_every=Rule(
            '"epoch" or an integer of at least 1', lambda value: value == "epoch" or integer(1).is_met(value), (0, "a")
        ),
        keep=integer(1),
        data=Rule(
            "an object with the methods `state_dict` and `load_state_dict`, as `text.batches` has", has_state, ([],)
        ),
        background=FLAG,
    )
    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        save_every: str | int = "epoch",
        keep: int = 2,
        data: Any = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        signals: str | Sequence[str] = ("SIGTERM",),
        background: bool = False,
    ) -> None:
        super().__init__()
        # `pathlib` turns two slashes into one.
        expect(
            not re.match(r"\w[\w+.-]+:/", str(folder)),
            "`folder` must be local. Use a local folder, and copy the training checkpoints from there.",
            folder=str(folder),
        )
        signals = [signals] if isinstance(signals, str) else list(signals)
        expect(
            CATCHABLE.issuperset(signals),
            "`signals` must be names of signals that can be caught, such as 'SIGTERM' or 'SIGINT'.",
            signals=signals,
        )
        self.save_every = save_every if save_every == "epoch" else int(save_every)
        self.folder, self.keep, self.signals = folder, int(keep), signals
        self.data, self.callbacks, self.background = data, callbacks, background
        self.stopped_by = None
        self._fitted = self._files = self._state = self._signals = self._resume = None
        self._short_epoch = contextlib.ExitStack()

    # === When a run begins ===

    def on_train_begin(self, logs=None):
        self.close()  # An earlier `fit` may have failed.
        rule = "The model must be built. Call `build` before `fit()`, or add an `Input`."
        expect(self.model.built, rule, model=self.model)
        self._fitted = self.model  # On JAX, `self.model` copies all weights out of a running `fit`.
        self._user_epoch = trainer.initial_epoch(self.model)
        self.stopped_by, self._saved_at, self._stopped = None, 0, False
        self._state = self._state_of_run()
        self._identity = describe(
            self._fitted, self._state.data, self._state.callbacks, self.progress.steps, self.progress.settings
        )
        self._files = CheckpointFolder(self.folder, self._fitted, self.keep, self.background)
        try:
            if (stored := self._files.newest()) is not None:
                self._resume_from(stored)
        except BaseException:
            self.close()
            raise
        self._signals = RunSignals(self.signals, self._fitted)

    def _state_of_run(self):
        """Returns the `RunState` of the model, the data and the other callbacks."""
        progress = self.progress
        others = self.callbacks if progress.callbacks is None else progress.callbacks
        data = progress.data if self.data is None else self.data
        data = data if has_state(data) else None
        if data is None or others is None:
            log.warning(
                "The state of %s is not stored. An interrupted run will repeat its epoch from the start. Pass `data` "
                "and `callbacks` to `TrainingCheckpoint`, with the methods `state_dict` and `load_state_dict`.",
                "the data and other callbacks" if others is None else "the data",
            )
        steps, length = progress.steps, getattr(data, "num_batches", None)
        if length is not None and steps not in (None, length):
            raise ValueError(
                "A run with `steps_per_epoch` cannot be resumed at the same batches, because its epochs differ from "
                "the epochs of the data. Leave out `steps_per_epoch`. To write training checkpoints more often, pass a "
                "number of batches as `save_every`. "
                f"Received: steps_per_epoch={steps}, and data with {length} batches"
            )
        return RunState(self._fitted, data, [callback for callback in others or [] if callback is not self])

    def _resume_from(self, stored):
        """Checks a training checkpoint against this run and restores it, or prepares to restore it in its epoch."""
        state, epochs, callbacks = stored.state, self.params["epochs"], self._state.callbacks
        self._identity |= check(self._identity, stored, self._state.can_resume_in_epoch(), self.model)
        epoch, batch, self._saved_at = state["epoch"], state["batch"], state["count"]
        self.progress.resume(epoch, batch, state["count"])
        self._state.restore_callbacks(stored)
        if epoch >= epochs or _ended(callbacks):
            log.warning(
                "The run is complete and is not trained further: %d of %d epochs: %s", epoch, epochs, stored.path
            )
            epoch = max(epoch, epochs)
        else:
            place = f", after batch {batch}" if batch else ""
            log.warning("Resuming from epoch %d of %d%s: %s", epoch + 1, epochs, place, stored.path)
        if batch and epoch < epochs:
            self._resume = stored
        else:
            self._state.restore(stored)
        trainer.set_initial_epoch(self._fitted, epoch)

    # === While it lasts ===

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch)
        trainer.set_initial_epoch(self._fitted, self._user_epoch)  # `fit` has already read this.
        if self._resume is not None:
            stored, self._resume = self._resume, None
            rule = f"The training checkpoint resumes in epoch {stored.state['epoch']}, counted from 0."
            expect(epoch == stored.state["epoch"], f"{rule} Do not pass `initial_epoch`.", epoch=epoch)
            self._state.restore(stored)
            self._short_epoch.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Your input ran out of data")  # Keras expects a whole epoch.
        self._state.begin_epoch(self.progress.first)

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch)
        progress = self.progress
        self._signals.look(batch + 1)
        if progress.batch >= (progress.steps or math.inf):
            return  # The end of the epoch follows.
        ends = self._fitted.stop_training or self._signals.caught
        # On torch, dropout follows torch's generator, from which Keras draws whenever it reads an epoch.
        due = self._is_due() and keras.backend.backend() != "torch"
        if (due or ends) and self._state.can_resume_in_epoch():
            self._save(progress.epoch, progress.batch)
        self._stopped = bool(ends)
        self._stop_if_caught()

    def on_epoch_end(self, epoch, logs=None):
        self._short_epoch.close()
        self._signals.look(0)
        stops = self._fitted.stop_training
        last = self.progress.is_last_epoch or stops or self._signals.caught
        cut = stops and self.progress.batch < (self.progress.steps or 0)
        if (self.save_every == "epoch" or last or self._is_due()) and not self._stopped and not cut:
            self._save(epoch + 1, 0)
        self._state.end_epoch()
        self._stop_if_caught()

    def _is_due(self):
        """Returns whether `save_every` batches have ended since a multiple of this number, and none was saved then."""
        every = self.save_every
        return every != "epoch" and self.progress.count // every > self._saved_at // every

    def _save(self, epoch, batch):
        sync(self._fitted)
        self._saved_at = self.progress.count
        states, variables = self._state.collect(batch)
        rates = {"rates now": rates_of(self._fitted.optimizer)}
        place = {"epoch": epoch, "batch": batch, "count": self.progress.count}
        self._files.write(epoch, batch, {**place, **self._identity, **rates, "states": states}, variables)

    def _stop_if_caught(self):
        caught = self._signals.caught
        if caught and self.stopped_by is None:
            self.stopped_by, self._fitted.stop_training = caught, True
            log.warning("%s: the run stops. To resume it, start it again with the folder %s", caught, self.folder)

    # === When it ends ===

    def on_train_end(self, logs=None):
        try:
            self._files.wait()
        finally:
            self.close()

    def close(self):
        if self._fitted is not None:
            trainer.set_initial_epoch(self._fitted, self._user_epoch)
        self._short_epoch.close()
        parts = [part for part in (self._signals, self._state, self._files) if part is not None]
        self._fitted = self._files = self._state = self._signals = self._resume = None
        with contextlib.ExitStack() as closing:  # From the last one on: signals are caught until everything is written.
            for part in parts:
                closing.callback(part.close)

    def get_config(self):
        config = {name: getattr(self, name) for name in ("save_every", "keep", "background")}
        return {"folder": str(self.folder), **config, "signals": list(self.signals)}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _ended(callbacks):
    """Returns whether `EarlyStopping`, in its restored state, has ended the run."""
    early = [callback for callback in callbacks if isinstance(callback, keras.callbacks.EarlyStopping)]
    return any(callback.stopped_epoch and callback.wait >= callback.patience for callback in early)


class RunSignals:
    """Catches signals until it is closed. A second signal has its usual effect.

    Args:
        names: List of strings. Names of the signals.
        model: The model of the run, whose processes all end with the same batch.

    Attributes:
        caught: String. Name of the signal that ends the run, or `None`.
    """

    def __init__(self, names, model):
        self.names, self.caught = names, None
        self._model, self._received, self._handlers = model, None, {}
        if names and threading.current_thread() is not threading.main_thread():
            log.warning(
                "Signals can be caught only in the main thread. No training checkpoint is written on %s.", names
            )
            return
        for number in (signal.Signals[name] for name in names):
            if signal.getsignal(number) is None:
                log.warning(
                    "%s has a handler outside Python. No training checkpoint is written on this signal.", number.name
                )
            else:
                self._handlers[number] = signal.signal(number, self._receive)

    def _receive(self, number, frame):
        if self._received is None:
            self._received = signal.Signals(number).name
        else:
            self.close()
            signal.raise_signal(number)

    def look(self, batches):
        """Finds out whether a signal ends the run, after so many batches of an epoch, or 0 at its end.

        Several processes exchange their signals after every few batches.
        """
        if processes_of(self._model)[1] == 1:
            self.caught = self._received
        elif self.names and batches % AGREE_EVERY == 0:
            number = int(signal.Signals[self._received]) if self._received else 0
            highest = int(gather(np.array([number]), self._model).max())
            self.caught = signal.Signals(highest).name if highest else None

    def close(self):
        """Restores the earlier handlers of the signals."""
        while self._handlers:
            number, handler = self._handlers.popitem()
            if signal.getsignal(number) == self._receive:
                signal.signal(number, handler)
