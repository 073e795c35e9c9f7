"""Going on after a crash, exactly where a `fit` was: the callback that writes what a run is made of, and reads it."""

import contextlib
import logging
import signal
import threading

import keras

from keras_transfer.training import checkpoint_files, private, steps
from keras_transfer.training.checkpoint_state import (
    check,
    data_state,
    has_epoch,
    made_with,
    restore,
    restore_data,
    settings,
    torch_numbers,
    variables_of,
    warn_of_others,
)
from keras_transfer.training.run_length import warn_in_epoch

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable("keras_transfer")
class Checkpoint(keras.callbacks.Callback):
    """Writes the state of a run, and goes on from it when the same script runs again: to the bit as if never stopped.

    A checkpoint holds all variables of the model (the states of its seeds too), of the optimizer (every slot, the
    learning rate) and of the metrics; the place in the run; and what the data's order draws from. Batches of the
    epoch that were seen before are passed over without training, and other callbacks see them go by: what
    `StagedTraining` trains is what it would have been. The newest intact checkpoint counts; a damaged one is passed
    over with a warning. A folder is one run's: when all epochs are done, `fit` with the same folder trains nothing,
    and with more `epochs` goes on.

    Exact are batches whose order is the same in each run: `text.batches` (`Task.fit` hands them over; in another
    model's `fit` pass `dataset=`), any dataset with an `epoch` that can be set, a `keras.utils.PyDataset` that draws
    from Python's or numpy's random numbers in one thread, arrays, tf.data whose epochs are all alike
    (`reshuffle_each_iteration=False`). Arrays with `shuffle=True` are exact on JAX and torch, and on TensorFlow after
    `keras.utils.set_random_seed`, with which Keras draws the same order each epoch. Not exact are data that go on
    through epochs (`steps_per_epoch` shorter than the data), and what draws from a backend's own global generator
    (`tf.random`). What other callbacks remember, such as `EarlyStopping`, begins anew. On several replicas the
    statistics of batch normalisation are the first replica's, as in all that Keras saves.

    Put it last in the list, so that it writes what the others have done. On several machines each needs its own
    folder.

    Args:
        folder: path of the run's checkpoints; made if it is missing.
        save_every: `"epoch"`, or int, how many batches from one to the next. At the run's end one is written anyway.
        keep: int, how many checkpoints stay.
        dataset: what is passed to `fit`, if it has an `epoch` that can be set.
        signals: names of the signals that end the run with a checkpoint, after the step (or validation) that runs; a
            second one acts as ever. `fit` returns, and `stopped_by` is the signal's name.

    Raises:
        ValueError: an argument is not as described; in `fit`, if the checkpoint is of another model, optimizer, or
            length of an epoch, or if all are damaged.
        OSError: the folder cannot be written (at once), or the disk is full.

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
        if save_every != "epoch" and not _is_count(save_every):
            raise ValueError(f"`save_every` must be 'epoch' or a number of batches. Received: {save_every!r}")
        if not _is_count(keep):
            raise ValueError(f"`keep` must be a whole number above 0. Received: {keep!r}")
        known = set(signal.Signals.__members__) - {"SIGKILL", "SIGSTOP"}
        signals = [signals] if isinstance(signals, str) else list(signals)
        if unknown := [name for name in signals if name not in known]:
            raise ValueError(f"`signals` must be names of signals that can be caught. Received: {unknown}")
        if dataset is not None and not has_epoch(dataset):
            raise ValueError(f"`dataset` must have an `epoch`, an int that can be set. Received: {dataset!r}")
        self.folder, self.save_every, self.keep, self.signals = folder, save_every, keep, signals
        self.dataset = dataset
        self.stopped_by = None
        self._previous_handlers, self._steps = {}, None

    def follow(self, dataset):
        """Says what `fit` trains on; `Task.fit` calls it."""
        if has_epoch(dataset):
            self.dataset = dataset

    # === fit ===

    def on_train_begin(self, logs=None):
        with self._told():
            self._end()  # of a `fit` of another model that failed where nobody was told
            self._steps, self._outer_epoch = steps.watch(self.model, self.params), private.first_epoch(self.model)
            self._steps.on_failure.append(self._end)
            if not self.model.built:
                raise ValueError(f"build the model before `fit`, or give it an input. Received: {self.model!r}")
            self.stopped_by, self._caught, self._resume, self._iterator = None, None, None, None
            self._count, self._stopped, self._ending, self._trained = 0, False, False, None
            self._settings, self._rates = settings(self.model.optimizer)
            checkpoint_files.prepare(self.folder)
            stored, self._damaged = checkpoint_files.newest(self.folder)
            if stored is not None:
                self._resume_from(stored)
            self._catch_signals()

    def on_epoch_begin(self, epoch, logs=None):
        with self._told():
            private.begin_in(self.model, self._outer_epoch)  # Keras has read it; it is no other `fit`'s
            self._epoch, self._seen = epoch, 0
            if self._trained is not None:
                warn_of_others(self._trains(), self._trained)
                self._trained = None
            warn_in_epoch(self, epoch)
            if self._resume is not None:
                state = self._resume.state
                if epoch != state["epoch"]:
                    raise ValueError(
                        f"the checkpoint goes on in epoch {state['epoch']}, counted from 0: leave `initial_epoch` out. "
                        f"Received: epoch {epoch}"
                    )
                restore_data(state["data"], self.dataset)
            self._beginning = data_state(self.dataset)

    def on_train_batch_begin(self, batch, logs=None):
        self._steps.begin()
        if self._resume is not None:
            # The last one trains, so that Keras makes what a step makes (metrics on TensorFlow); all is put back then.
            self._steps.skipping = batch + self.model.steps_per_execution < self._resume.state["batch"]

    def on_train_batch_end(self, batch, logs=None):
        with self._told():
            if batch < self.model.steps_per_execution:
                self._look_at_iterator()
            done, self._seen = batch + 1 - self._seen, batch + 1
            if self._resume is not None:
                self._pass_over(logs)
                return
            before, self._count = self._count, self._count + done
            due = self.save_every != "epoch" and self._count // self.save_every > before // self.save_every
            ends = self.model.stop_training and not self._seen_all()
            if due or ends or self._caught:
                self._save(self._epoch, self._seen, self._beginning)
                self._stopped = bool(ends or self._caught)
                self._stop_if_caught()

    def on_epoch_end(self, epoch, logs=None):
        with self._told():
            if self._resume is not None and self.model.stop_training:  # another callback has had enough
                self._go_on()
            if self._resume is not None:
                raise ValueError(
                    f"the checkpoint stands at batch {self._resume.state['batch']} of an epoch, which must be in the "
                    f"data. Received: data of {self._seen} batches"
                )
            last = epoch + 1 == self.params["epochs"] or self.model.stop_training or self._caught
            cut = self.model.stop_training and self._seen < (self.params.get("steps") or 0)
            if (self.save_every == "epoch" or last) and not self._stopped and not cut:
                self._save(epoch + 1, 0, data_state(self.dataset))
            self._stop_if_caught()

    def on_train_end(self, logs=None):
        self._end()

    def _seen_all(self):
        return self.params.get("steps") is not None and self._seen >= self.params["steps"]

    @contextlib.contextmanager
    def _told(self):
        """Says to all who watch this `fit` when a hook of this callback ends it, as when a step does."""
        try:
            yield
        except BaseException:
            if self._steps is not None:
                self._steps.fail()
            raise

    def _end(self):
        if self._steps is None:
            return
        watched, self._steps, self._resume, self._iterator = self._steps, None, None, None
        private.begin_in(watched.model, self._outer_epoch)
        self._give_signals_back()
        watched.skipping = False
        watched.leave(self._end)

    # === Writing ===

    def _save(self, epoch, batch, data):
        steps.sync(self.model)
        state = {
            "epoch": epoch,
            "batch": batch,
            "count": self._count,
            "run": made_with(self.params.get("steps")),
            "data": data,
            "torch": torch_numbers(),
            "trains": self._trains(),
            "optimizer": self._settings,
            "rates": [self._rates, settings(self.model.optimizer)[1]],
        }
        variables = variables_of(self.model, "model", "optimizer", "metrics")
        path = checkpoint_files.write(self.folder, epoch, batch, state, variables)
        checkpoint_files.prune(self.folder, self.keep, [old for old in self._damaged if old != path])
        self._damaged = []

    def _trains(self):
        """What trains when, as JSON has it."""
        staged, weights = self._steps.staged_by, self.model.trainable_weights
        return {
            "weights": [weight.path for weight in weights],
            "stages": [] if staged is None else [[start, list(names)] for start, names in staged.schedule],
        }

    # === Going on ===

    def _resume_from(self, stored):
        """Checks a checkpoint against this run, and says where it goes on."""
        state, epochs = stored.state, self.params["epochs"]
        check(self.model, stored, self.params.get("steps"))
        epoch, batch, self._trained = state["epoch"], state["batch"], state["trains"]
        private.begin_in(self.model, epoch)
        self._settings, self._rates, self._count = state["optimizer"], state["rates"][0], state["count"]
        if epoch >= epochs:
            log.warning("the run is complete, nothing is trained: %d of %d epochs, in %s", epoch, epochs, stored.path)
        else:
            place = f", after batch {batch}" if batch else ""
            log.warning("resuming from epoch %d of %d%s: %s", epoch + 1, epochs, place, stored.path)
        if batch and epoch < epochs:
            self._resume = stored  # put in place when the batches before it are passed over
        else:
            restore(self.model, stored, metrics=False)
            restore_data(state["data"], self.dataset)

    def _pass_over(self, logs):
        batch = self._resume.state["batch"]
        if self._seen > batch:
            raise ValueError(
                f"a step must end where the checkpoint stands, at batch {batch}: `steps_per_execution` must be as it "
                f"was. Received: {self.model.steps_per_execution}"
            )
        # Who ends the run now must wait: Keras cannot end an epoch in which no step was made.
        self._ending, self.model.stop_training = self._ending or self.model.stop_training, False
        if self._seen == batch:
            self.model.stop_training = self._ending
            self._go_on(metrics=True)
            if logs:  # what the step said of that batch is none of the run's
                logs.update(self.model.get_metrics_result())
            self._stop_if_caught()

    def _go_on(self, metrics=False):
        """Puts the state in place in the middle of an epoch; the steps from now on are the run's."""
        steps.sync(self.model)
        restore(self.model, self._resume, metrics)
        self._resume, self._stopped = None, bool(self._caught or self.model.stop_training)

    def _look_at_iterator(self):
        iterator = self._steps.iterator
        if self._iterator is not None and iterator is self._iterator:
            log.warning(
                "the data go on through the epochs: a run that goes on from a checkpoint sees them from their "
                "beginning, not as it would have"
            )
        self._iterator = iterator

    # === Signals ===

    def _catch_signals(self):
        if not self.signals:
            return
        if threading.current_thread() is not threading.main_thread():
            log.warning("outside the main thread no signal can be caught, and %s writes no checkpoint", self.signals)
            return
        for number in (signal.Signals[name] for name in self.signals):
            if signal.getsignal(number) is None:
                log.warning("%s is caught outside Python already, and writes no checkpoint", number.name)
            else:
                self._previous_handlers[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number, frame):
        if self._caught is None and self._is_fitting(frame):
            self._caught = signal.Signals(number).name
        else:
            self._give_signals_back()
            signal.raise_signal(number)

    def _is_fitting(self, frame):
        """Whether the `fit` still runs: another callback's error ends it and tells nobody."""
        while frame is not None:
            if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is self.model:
                return True
            frame = frame.f_back
        return False

    def _give_signals_back(self):
        while self._previous_handlers:
            number, handler = self._previous_handlers.popitem()
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, handler)

    def _stop_if_caught(self):
        if self._caught and self.stopped_by is None:
            self.stopped_by, self.model.stop_training = self._caught, True
            log.warning("%s: the run stops; to go on, run it again with %s", self._caught, self.folder)

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
