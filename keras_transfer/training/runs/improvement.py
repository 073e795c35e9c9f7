"""The improvement of a metric in one stage, and the weights of its best epoch."""

import logging
import sys

import keras

from keras_transfer.keras_internals import keras_callbacks

log = logging.getLogger("keras_transfer")


class Improvement:
    """Keras's `EarlyStopping` for one stage of a run.

    Args:
        model: The model to train.
        monitor: String. Name of the metric.
        patience: Integer or `None`. Number of epochs without improvement after which the stage is over.
        restore_best: Boolean. Whether `finish` restores the weights of the best epoch.
        validates: Boolean. Whether the run validates, possibly not in each epoch. Defaults to `None`, if it is
            unknown.
    """

    def __init__(self, model, monitor, patience, restore_best, validates=None):
        self._model, self._validates = model, validates
        self._watch = keras.callbacks.EarlyStopping(
            monitor, patience=patience or sys.maxsize, restore_best_weights=restore_best
        )
        self._watch.set_model(model)
        self._watch.on_train_begin()

    def is_over(self, logs):
        """Returns whether the stage is over, given the logs of its next epoch."""
        monitor, stops = self._watch.monitor, self._model.stop_training
        validated = any(name.startswith("val_") for name in logs)
        # `validation_freq` may skip the validation of an epoch.
        if monitor not in logs and not validated and self._validates is not False:
            if self._validates is None:
                log.warning("A stage waits for %r, but this epoch was not validated. Pass `validation_data`.", monitor)
            return False
        if monitor not in logs:
            raise ValueError(
                "A stage with `patience` or `restore_best` requires the metric that it monitors. Pass "
                f"`validation_data` to `fit()`. Expected one of {sorted(logs)}. Received: monitor={monitor!r}"
            )
        try:
            self._watch.on_epoch_end(1, logs)  # `EarlyStopping` never stops in epoch 0.
        except ValueError as error:
            raise ValueError(
                "`monitor` must be a loss, or a metric for which Keras knows whether it should rise or fall. "
                f"Received: monitor={monitor!r}"
            ) from error
        self._model.stop_training = stops  # Only the stage is over, not the run.
        return self._watch.stopped_epoch > 0

    def state_dict(self):
        """Returns the epochs without improvement, and the best weights."""
        return {name: getattr(self._watch, name) for name in keras_callbacks.callback_attributes(self._watch)}

    def load_state_dict(self, state):
        """Restores what `state_dict` returned."""
        vars(self._watch).update(state)

    def finish(self):
        """Restores the best weights if `restore_best` is True."""
        self._watch.on_train_end()
