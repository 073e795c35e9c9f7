"""The progress of a run: where it is, what Keras does not tell callbacks, and cleaning up when it ends or fails."""

import contextlib
import logging
import math
import warnings

import keras

from keras_transfer.keras_internals import accumulation_steps
from keras_transfer.training.run_state import flat

log = logging.getLogger("keras_transfer")

_FAR = 10  # A schedule may be that many times longer than a run, because later runs may continue it.


class Progress(keras.callbacks.Callback):
    """Where a run is. `fit` owns it, all callbacks of the run read it, and it alone ends an epoch early.

    In `fit` of a model that is not a task, Keras does not call it. The first `RunCallback` then tells it what happens.

    Args:
        data: The dataset of the run, such as `Batches` or a `Stream`. Defaults to `None`, for unknown data.
        callbacks: List of all callbacks, in order. Defaults to `None`, for unknown ones.
        settings: Dict of the other settings of `fit` that influence the result. Defaults to `None`, for no settings.
        by_keras: Boolean. Whether Keras tells the batches when an epoch ends. Defaults to `True`.
        reporter: The `RunCallback` that calls it. Defaults to `None`, for Keras.

    Attributes:
        data: The dataset, or the position in a loader, which has its state.
        epoch: Integer. The current epoch, counted from 0.
        first: Integer. The batch with which this epoch began, which is not 0 if the run was resumed in it.
        batch: Integer. The number of batches of this epoch that are done, including those before `first`.
        count: Integer. The number of batches of the run that are done.
        restarts: Boolean. Whether the learning rate schedule begins again during the run.
    """

    def __init__(self, data=None, callbacks=None, settings=None, by_keras=True, reporter=None):
        super().__init__()
        self._batches, self._stream = (data if hasattr(data, name) else None for name in ("planned", "first_epoch"))
        self._position = getattr(self._stream, "position", None)
        self.data = getattr(data, "state_holder", data)
        self.callbacks, self.settings, self._by_keras, self.reporter = callbacks, settings or {}, by_keras, reporter
        self.epoch = self.first = self.batch = self.count = 0
        self.restarts, self._resumed = False, None
        # Keras may read a batch before the run, which ends an epoch, and how many there are in an epoch.
        self._start = self._batches.state_dict() if self._batches is not None and by_keras else None

    def set_params(self, params):
        super().set_params(params)
        params["progress"] = self  # All callbacks of a `fit` share this dict.

    @property
    def steps(self):
        """The number of batches in an epoch, or `None` if it is unknown."""
        return self.params.get("steps")

    @property
    def is_last_epoch(self):
        """Boolean. Whether the run ends with this epoch."""
        return self.epoch + 1 >= self.params.get("epochs", math.inf)

    def resume(self, epoch, batch, count):
        """Makes the run continue at a batch of an epoch, after a number of batches."""
        self._resumed, self.count = (epoch, batch), count

    def __enter__(self):
        if self._start is not None:
            self._batches.seek(0)
        return self

    def __exit__(self, *error):
        self._return()  # `fit` may have failed before the run.
        with contextlib.ExitStack() as closing:  # Each is closed, even if another one fails, and the first one first.
            for callback in reversed(self.callbacks):
                if isinstance(callback, RunCallback):
                    closing.callback(callback.close)

    # === What Keras calls ===

    def on_train_begin(self, logs=None):
        self._return()
        if self._position is not None:
            self._position.restart()

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if self._stream is not None:
            self._stream.epoch = self._stream.first_epoch + epoch
        self.first = self.batch = self._resumed[1] if self._resumed and epoch == self._resumed[0] else 0
        # After an interruption within an epoch, the step of the optimizer is not restored yet.
        if self.steps is not None and not self.restarts and not self.first:
            warn_if_shorter(self.model.optimizer, (self.params["epochs"] - epoch) * self.steps)

    def on_train_batch_begin(self, batch, logs=None):
        left = math.inf if self._by_keras else len(self._batches)
        if self.first:
            left = min(left, (self.steps or math.inf) - self.first)
        if batch >= left:
            raise StopIteration  # Keras ends the epoch as if the data ended. An extra step would change seed states.

    def on_train_batch_end(self, batch, logs=None):
        done = self.first + batch + 1
        new = done - self.batch  # Keras may make several steps at once.
        self.batch, self.count = done, self.count + new
        if self._position is not None:
            self._position.trained(new)

    def on_epoch_end(self, epoch, logs=None):
        if not self._by_keras:
            self._batches.on_epoch_end()

    def _return(self):
        """Moves the batches back to where they were before Keras read any."""
        start, self._start = self._start, None
        if start is not None:
            self._batches.load_state_dict(start)


class RunCallback(keras.callbacks.Callback):
    """Base class of callbacks that change a model, or hold a resource, until a run ends.

    Keras does not notify callbacks when `fit` fails. `fit` of a task and `fine_tune` call `close()` then. For `fit` of
    another model, use the callback as a context manager: `with callback: model.fit(..., callbacks=[callback])`.

    A subclass that overrides `on_epoch_begin`, `on_train_batch_begin` or `on_train_batch_end` calls the method of this
    class first.

    Example:
    ```python
    class HalfRate(keras_transfer.callbacks.RunCallback):
        rate = None

        def on_train_begin(self, logs=None):
            self.rate = float(self.model.optimizer.learning_rate)
            self.model.optimizer.learning_rate = self.rate / 2

        def close(self):
            if self.rate is not None:
                self.model.optimizer.learning_rate = self.rate

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with HalfRate() as callback:
        model.fit(np.ones((4, 2)), np.ones(4), callbacks=[callback], verbose=0)
    ```
    """

    @property
    def progress(self):
        """Where the run is: its `epoch`, `batch`, `count` of batches, `steps` in an epoch, and `is_last_epoch`."""
        self.params = {} if self.params is None else self.params  # Somebody calls the methods without `fit`.
        self._begin_progress()
        return self.params["progress"]

    def set_params(self, params):
        super().set_params(params)
        if params is not None and self.model is not None:
            self._begin_progress()  # The first callback does, because it is called before the others.

    def _begin_progress(self):
        """Makes a `Progress` to which this callback reports, unless the run has one."""
        if "progress" not in self.params:
            Progress(reporter=self).set_params(self.params)
            self.params["progress"].set_model(self.model)

    def on_epoch_begin(self, epoch, logs=None):
        if self.progress.reporter is self:
            self.progress.on_epoch_begin(epoch)

    def on_train_batch_begin(self, batch, logs=None):
        if self.progress.reporter is self:
            self.progress.on_train_batch_begin(batch)

    def on_train_batch_end(self, batch, logs=None):
        if self.progress.reporter is self:
            self.progress.on_train_batch_end(batch)

    def close(self) -> None:
        """Restores what the callback has changed. Calling it again has no effect.

        Subclasses override this. By default, a callback has changed nothing.
        """

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def sync(model):
    """Updates the variables during an epoch, when Keras on JAX keeps their values elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


# === The length of a schedule ===


def warn_if_shorter(optimizer, total_steps):
    """Logs a warning once if the optimizer's learning rate schedule ends before the run, or long after it.

    A schedule counts batches from the optimizer's first one, even if gradients are accumulated over several. A schedule
    without `total_steps`, or a constant rate, has no end.

    Args:
        optimizer: Keras optimizer.
        total_steps: Integer. Number of batches of the run that begins.
    """
    begin = int(keras.ops.convert_to_numpy(optimizer.iterations)) * accumulation_steps(optimizer)
    last = begin + total_steps
    schedules = _schedules_by_length(optimizer)
    warned = getattr(optimizer, "warned_until", None)  # The last step for which a warning was given.
    length = min(schedules, default=last)
    if length > _FAR * last and warned is None:
        optimizer.warned_until = 0
        log.warning(
            "The run ends at step %d, but the learning rate schedule %s only at step %d, so that most of it never "
            "happens. If no later run continues it, create it with total_steps=%d.",
            *(last, schedules[length], length, last),
        )
    if length < last and (warned or 0) < last:
        optimizer.warned_until = last
        log.warning(
            "The learning rate schedule %s ends at step %d, but the run ends at step %d%s. After the end of the "
            "schedule, the learning rate is constant. Create the schedule with total_steps=%d.",
            *(schedules[length], length, last, f" (it begins at step {begin})" if begin else "", last),
        )


def _schedules_by_length(optimizer):
    """Returns a dict from lengths to the classes of the schedules in an optimizer and in those that it wraps."""
    with warnings.catch_warnings():  # Keras warns that saving a lambda is unsafe.
        warnings.simplefilter("ignore")
        try:
            config = dict(flat(optimizer.get_config()))
        except OSError:  # Keras raises this if the source of a lambda is unknown.
            return {}
    end = "learning_rate.config.total_steps"
    found = {name.removesuffix("config.total_steps"): steps for name, steps in config.items() if name.endswith(end)}
    return {steps: config[f"{name}class_name"] for name, steps in found.items() if steps}
