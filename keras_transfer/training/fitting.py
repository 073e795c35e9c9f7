"""Calling Keras's `fit` with the `Progress` of the run, and with the callbacks that every run has."""

import contextlib
import logging
import math
import warnings

import keras

from keras_transfer.data import for_keras
from keras_transfer.keras_internals import optimizers
from keras_transfer.training.averaging import ValidatedAverages
from keras_transfer.training.progress import Progress, RunCallback, sync

log = logging.getLogger("keras_transfer")


def fit_in_run(fit, data, callbacks, options, *, settings=None):
    """Calls `fit` with its `Progress`, and with batches in the fastest form for Keras.

    Args:
        fit: Method `fit` of a `keras.Model`.
        data: `Source`, or anything else that `fit` accepts as `x`.
        callbacks: List of callbacks, or `keras.callbacks.CallbackList`.
        options: Dict of the other arguments of `fit`.
        settings: Dict of what else influences the result. Defaults to `None`, for no settings.

    Returns:
        Keras's `History`.
    """
    pipeline = for_keras(data, may_end_early=True)  # A resumed epoch has fewer batches, and so has one of streams.
    given = getattr(callbacks, "callbacks", callbacks)
    batches = data if hasattr(data, "planned") else None
    by_keras = batches is None or pipeline is data  # From a pipeline, Keras does not tell when an epoch ends.
    progress = Progress(data, None, settings, by_keras)
    # First, because all others see the weights that these leave.
    first = [progress, LastGradients()]
    if not any(isinstance(callback, ValidatedAverages) for callback in given):
        first.append(ValidatedAverages())
    progress.callbacks = [*first, *given]
    options = {**options, "validation_data": for_keras(options.get("validation_data"))}
    with progress, _preceded(callbacks, first) as callbacks, warnings.catch_warnings():
        # An epoch that does not begin with its first batch is shorter than what Keras reads before the run.
        if batches is not None and len(batches) < len(batches.planned()):
            warnings.filterwarnings("ignore", "Your input ran out of data")
        return fit(pipeline, callbacks=callbacks, **options)


@contextlib.contextmanager
def _preceded(callbacks, first):
    """Returns a list of callbacks, or the given `CallbackList`, with others before them in this context."""
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        yield [*first, *callbacks]
        return
    for callback in first:
        callback.set_model(callbacks.model)
        callback.set_params(callbacks.params)
    callbacks.callbacks[:0] = first
    try:
        yield callbacks
    finally:
        for callback in first:
            callbacks.callbacks.remove(callback)


class LastGradients(RunCallback):
    """Makes one update from the gradients that an optimizer has accumulated when the last epoch ends.

    Keras would keep them for the next `fit`. After a run that ends before its last epoch, they are dropped.
    """

    def on_train_begin(self, logs=None):
        optimizers.drop_gradients(self.model.optimizer)

    def on_test_begin(self, logs=None):
        if self.progress.is_last_epoch and (count := optimizers.left_over(self.model.optimizer)):
            sync(self.model)
            log.info("The last update of the run is that of its last %d batches.", count)
            total = getattr(self.model, "labels_of_update", None)
            optimizers.apply_gradients(self.model.optimizer, self.model.trainable_variables, total)

    def on_epoch_end(self, epoch, logs=None):
        self.on_test_begin()  # Without validation, nothing has called it.

    def on_train_end(self, logs=None):
        if count := optimizers.left_over(self.model.optimizer):
            log.warning(
                "The run ended early. The gradients of its last %d batches, too few for an update, are dropped.",
                count,
            )
            optimizers.drop_gradients(self.model.optimizer)


def epochs_of_steps(data, length, steps, goes_on=False):
    """Returns the number of epochs of a run and the number of batches in each, which are at least `steps` in total.

    Epochs are shortened to an equal length if there is only one, if each has a different order, or if each continues
    where the last one ended. Otherwise they would all leave out the same batches at the end.

    Args:
        data: `Batches`, or anything else that `fit` accepts as `x`, whose order is then assumed to be fixed.
        length: Integer. Number of batches of the data.
        steps: Integer. Number of batches of the run.
        goes_on: Boolean. Whether an epoch continues where the last one ended, as with the `steps_per_epoch` of `fit`.
            Defaults to `False`.
    """
    epochs = math.ceil(steps / length)
    is_cut = epochs == 1 or goes_on or getattr(data, "reshuffled", False)
    return epochs, math.ceil(steps / epochs) if is_cut else length
