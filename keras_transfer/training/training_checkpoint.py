"""A callback that saves the state of a run, and resumes the run from it after a crash."""

import concurrent.futures
import contextlib
import copy
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
from keras_transfer.distribute import agree, gather, in_first_process, is_chief, processes_of, together
from keras_transfer.keras_internals import trainer
from keras_transfer.training import checkpoint_files
from keras_transfer.training.progress import RunCallback, sync
from keras_transfer.training.run_identity import check, describe, rates_of
from keras_transfer.training.states import (
    has_state,
    join,
    load_random_states,
    load_states,
    random_states,
    split,
    states_of,
)

log = logging.getLogger("keras_transfer")
AGREE_EVERY = 8  # Number of batches between exchanges of signals among processes, each of which waits for the devices.


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
        known = set(signal.Signals.__members__) - {"SIGKILL", "SIGSTOP"}
        signals = [signals] if isinstance(signals, str) else list(signals)
        expect(
            known.issuperset(signals),
            "`signals` must be names of signals that can be caught, such as 'SIGTERM' or 'SIGINT'.",
            signals=signals,
        )
        self.save_every = save_every if save_every == "epoch" else int(save_every)
        self.folder, self.keep, self.signals = folder, int(keep), signals
        self.data, self.callbacks, self.background = data, callbacks, background
        self.stopped_by = None
        self._writing = self._lock = self._fitted = None
        self._previous_handlers = {}
        self._short_epoch, self._failed_at = contextlib.ExitStack(), None

    # === fit ===

    def on_train_begin(self, logs=None):
        self.close()  # An earlier `fit` may have failed.
        rule = "The model must be built. Call `build` before `fit()`, or add an `Input`."
        expect(self.model.built, rule, model=self.model)
        self._fitted = self.model  # On JAX, `self.model` copies all weights out of a running `fit`.
        self._user_epoch = trainer.initial_epoch(self.model)
        self.stopped_by, self._received, self._caught, self._resume = None, None, None, None
        self._looked_at, self._due, self._stopped = 0, False, False
        self._look_at_run()
        self._processes = processes_of(self.model)[1]
        self._lock = in_first_process(lambda: checkpoint_files.prepare(self.folder), self.model)
        try:
            stored, self._damaged = self._newest()
            if stored is not None:
                self._resume_from(stored)
        except BaseException:
            self.close()
            raise
        self._catch_signals()

    def _newest(self):
        """Returns the result of `checkpoint_files.newest` for the checkpoint that the first process has found."""
        found = in_first_process(lambda: checkpoint_files.newest(self.folder), self.model)
        if self._processes == 1:
            return found
        stored, damaged = found or (None, [])
        place = [-1, 0] if stored is None else [stored.state["epoch"], stored.state["batch"]]
        epoch, batch = (agree(number, self.model) for number in place)
        if epoch >= 0:
            stored = together(lambda: stored or self._read(epoch, batch), self.model)
        return stored, damaged

    def _read(self, epoch, batch):
        """Returns the training checkpoint that the first process has found."""
        path = checkpoint_files.path_of(self.folder, epoch, batch)
        if not path.exists():
            raise FileNotFoundError(
                "All processes of a run must see the folder of its training checkpoints. Use a shared file system. "
                f"Received: no {path}, which the first process has"
            )
        return checkpoint_files.read(path)

    def _look_at_run(self):
        """Finds the data, the other callbacks, and the settings that influence the result."""
        progress = self.progress
        others = self.callbacks if progress.callbacks is None else progress.callbacks
        self._others = [callback for callback in others or [] if callback is not self]
        self._data = progress.data if self.data is None else self.data
        self._data = self._data if has_state(self._data) else None
        if self._data is None or others is None:
            log.warning(
                "The state of %s is not stored. An interrupted run will repeat its epoch from the start. Pass `data` "
                "and `callbacks` to `TrainingCheckpoint`, with the methods `state_dict` and `load_state_dict`.",
                "the data and other callbacks" if others is None else "the data",
            )
        steps, length = progress.steps, getattr(self._data, "num_batches", None)
        if length is not None and steps not in (None, length):
            raise ValueError(
                "A run with `steps_per_epoch` cannot be resumed at the same batches, because its epochs differ from "
                "the epochs of the data. Leave out `steps_per_epoch`. To write training checkpoints more often, pass a "
                "number of batches as `save_every`. "
                f"Received: steps_per_epoch={steps}, and data with {length} batches"
            )
        self._run = describe(self.model, self._data, self._others, steps, progress.settings)

    def on_epoch_begin(self, epoch, logs=None):
        trainer.set_initial_epoch(self._fitted, self._user_epoch)  # `fit` has already read this.
        self.progress.on_epoch_begin(epoch)
        if self._resume is not None:
            stored, self._resume = self._resume, None
            rule = f"The training checkpoint resumes in epoch {stored.state['epoch']}, counted from 0."
            expect(epoch == stored.state["epoch"], f"{rule} Do not pass `initial_epoch`.", epoch=epoch)
            self._restore(stored)
            self._short_epoch.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Your input ran out of data")  # Keras expects a whole epoch.
        self._beginning = None if self._data is None else self._data.state_dict()
        self._failed_at = {**self._beginning, "batch": 0} if self.progress.first and self._data is not None else None

    def on_train_batch_begin(self, batch, logs=None):
        self.progress.on_train_batch_begin(batch)

    def on_train_batch_end(self, batch, logs=None):
        progress = self.progress
        progress.on_train_batch_end(batch)
        self._agree_on_signal(batch + 1)
        before, self._looked_at = self._looked_at, progress.count
        self._due |= self.save_every != "epoch" and progress.count // self.save_every > before // self.save_every
        if progress.batch >= (progress.steps or math.inf):
            return  # The end of the epoch follows.
        ends = self._fitted.stop_training or self._caught
        # On torch, dropout follows torch's generator, from which Keras draws whenever it reads an epoch.
        due = self._due and keras.backend.backend() != "torch"
        if (due or ends) and self._can_resume_in_epoch():
            self._save(progress.epoch, progress.batch)
        self._stopped = bool(ends)
        self._stop_if_caught()

    def on_epoch_end(self, epoch, logs=None):
        self._short_epoch.close()
        self._agree_on_signal(0)
        last = epoch + 1 == self.params["epochs"] or self._fitted.stop_training or self._caught
        cut = self._fitted.stop_training and self.progress.batch < (self.progress.steps or 0)
        if (self.save_every == "epoch" or last or self._due) and not self._stopped and not cut:
            self._save(epoch + 1, 0)
        self._failed_at = None
        self._stop_if_caught()

    def on_train_end(self, logs=None):
        try:
            in_first_process(self._wait, self._fitted)
        finally:
            self.close()

    def close(self):
        with contextlib.suppress(OSError):  # The error was logged when it occurred.
            self._wait()
        if self._fitted is not None:
            trainer.set_initial_epoch(self._fitted, self._user_epoch)
        self._short_epoch.close()
        if self._failed_at is not None:  # in an epoch that was resumed
            self._data.load_state_dict(self._failed_at)
        self._failed_at = None
        self._restore_handlers()
        if self._lock is not None:
            self._lock.release()
        self._lock = self._fitted = self._resume = self._data = self._others = None

    # === Writing ===

    def _can_resume_in_epoch(self):
        """Returns whether a run can resume in the middle of this epoch."""
        return self._data is not None and "batch" in self._data.state_dict()

    def _save(self, epoch, batch):
        model = self._fitted
        sync(model)
        data = None if self._data is None else self._data.state_dict()
        if batch:  # Batches may be prefetched, so the state of the data itself may be ahead.
            has_own = hasattr(self._data, "state_in_epoch")
            data = self._data.state_in_epoch() if has_own else {**self._beginning, "batch": batch}
        arrays, states = {}, {"data": data, "callbacks": states_of(self._others), "random": random_states()}
        state = {
            "epoch": epoch,
            "batch": batch,
            "count": self.progress.count,
            **self._run,
            "rates now": rates_of(model.optimizer),
            "states": split(states, "states", arrays),
        }
        variables = variables_of(model) | arrays
        if self._processes > 1:  # All processes must take part when TensorFlow reads some of the variables.
            variables = {name: keras.ops.convert_to_numpy(variable) for name, variable in variables.items()}
        damaged, self._damaged, self._due = self._damaged, [], False

        def write():
            path = checkpoint_files.write(self.folder, epoch, batch, state, variables)
            checkpoint_files.prune(self.folder, self.keep, [old for old in damaged if old != path])

        if not self.background:
            in_first_process(write, model)
            return
        in_first_process(self._wait, model)
        if is_chief(model):
            state = copy.deepcopy(state)
            variables = {name: np.array(keras.ops.convert_to_numpy(variable)) for name, variable in variables.items()}
            self._writing = in_background(write)

    def _wait(self):
        """Waits until the last training checkpoint is written, and raises the error if this has failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    # === Resuming ===

    def _resume_from(self, stored):
        """Checks a training checkpoint against this run and restores it, or prepares to restore it in its epoch."""
        state, epochs = stored.state, self.params["epochs"]
        self._run |= check(self._run, stored, self._can_resume_in_epoch(), self.model)
        epoch, batch, self._looked_at = state["epoch"], state["batch"], state["count"]
        self.progress.resume(epoch, batch, state["count"])
        load_states(self._others, self._states(stored)["callbacks"])
        if epoch >= epochs or _ended(self._others):
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
            self._restore(stored)
        trainer.set_initial_epoch(self._fitted, epoch)

    def _states(self, stored):
        return join(stored.state["states"], stored.read)

    def _restore(self, stored):
        states = self._states(stored)
        restore_variables(self._fitted, stored, metrics=stored.state["batch"] > 0)
        load_states(self._others, states["callbacks"])
        load_random_states(states["random"])
        if self._data is not None and states["data"] is not None:
            self._data.load_state_dict(states["data"])

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
        if self._received is None:
            self._received = signal.Signals(number).name
        else:
            self._restore_handlers()
            signal.raise_signal(number)

    def _agree_on_signal(self, batches):
        """Finds out whether a signal ends the run. Several processes exchange their signals after every few batches."""
        if self._processes == 1:
            self._caught = self._received
        elif self.signals and batches % AGREE_EVERY == 0:
            number = int(signal.Signals[self._received]) if self._received else 0
            highest = int(gather(np.array([number]), self._fitted).max())
            self._caught = signal.Signals(highest).name if highest else None

    def _restore_handlers(self):
        while self._previous_handlers:
            number, handler = self._previous_handlers.popitem()
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, handler)

    def _stop_if_caught(self):
        if self._caught and self.stopped_by is None:
            self.stopped_by, self._fitted.stop_training = self._caught, True
            log.warning("%s: the run stops. To resume it, start it again with the folder %s", self._caught, self.folder)

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


def in_background(function):
    """Calls a function in a thread, for which the process waits before it exits. Returns its `Future`.

    Errors are logged at once, and raised by the result of the `Future`.
    """

    def call():
        try:
            function()
        except OSError as error:
            log.error("A training checkpoint was not written: %s", error)
            raise

    thread = concurrent.futures.ThreadPoolExecutor(1, "training checkpoint")
    future = thread.submit(call)
    thread.shutdown(wait=False)
    return future


def variables_of(model):
    """Returns a dict from unique names to the variables of a model, its optimizer and its metrics, and its heads."""
    owners = {"model": model.variables, "optimizer": model.optimizer.variables, "metrics": model.metrics_variables}
    found = {f"{kind}/{i}/{v.path}": v for kind, variables in owners.items() for i, v in enumerate(variables)}
    heads = model.head_adapters.heads if hasattr(model, "head_adapters") else {}
    return found | {f"heads/{name}/{i:03d}": value for name, values in heads.items() for i, value in enumerate(values)}


def restore_variables(model, stored, metrics):
    """Restores what `variables_of` returned. The metrics are restored only if `metrics` is True."""
    ours, theirs = (_by_kind(names) for names in (variables_of(model), stored.tensors))
    shapes = [tuple(variable.shape) for variable in ours["metrics"].values()]
    if metrics and shapes != [shape for _, shape, _ in theirs["metrics"].values()]:
        log.warning(
            "The metrics are not built yet, or differ from the metrics of the training checkpoint. In this epoch, they "
            "cover only the remaining batches."
        )
        metrics = False
    for kind in ("model", "optimizer", "metrics") if metrics else ("model", "optimizer"):
        for variable, name in zip(ours[kind].values(), theirs[kind], strict=True):
            variable.assign(stored.read(name))
    heads = {}
    for name in sorted(theirs["heads"]):
        heads.setdefault(name.split("/", 1)[1].rpartition("/")[0], []).append(stored.read(name))
    if heads:
        model.head_adapters.heads.update(heads)


def _by_kind(tensors):
    found = {kind: {} for kind in ("model", "optimizer", "metrics", "heads")}
    for name, value in tensors.items():
        found.setdefault(name.split("/")[0], {})[name] = value
    return found
