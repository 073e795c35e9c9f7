"""Warnings about learning rate schedules that end before the run, or long after it."""

import contextlib
import logging
import warnings

import keras

from keras_transfer.keras_internals import accumulation_steps

log = logging.getLogger("keras_transfer")

_FAR = 10  # A schedule may be that many times longer than a run, because later runs may continue it.


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
    lengths = {s["config"]["total_steps"]: s for s in find_schedules(optimizer) if s["config"].get("total_steps")}
    warned = getattr(optimizer, "warned_until", None)  # The last step for which a warning was given.
    if lengths and min(lengths) > _FAR * last and warned is None:
        optimizer.warned_until = 0
        log.warning(
            "The run ends at step %d, but the learning rate schedule %s only at step %d, so that most of it never "
            "happens. If no later run continues it, create it with total_steps=%d.",
            last,
            lengths[min(lengths)]["class_name"],
            min(lengths),
            last,
        )
    if not lengths or min(lengths) >= last or (warned or 0) >= last:
        return
    optimizer.warned_until = last
    length = min(lengths)
    log.warning(
        "The learning rate schedule %s ends at step %d, but the run ends at step %d%s. After the end of the schedule, "
        "the learning rate is constant. Create the schedule with total_steps=%d.",
        lengths[length]["class_name"],
        length,
        last,
        f" (it begins at step {begin})" if begin else "",
        last,
    )


def expect_restarts(callback):
    """Disables the warning about a schedule that ends in the run of a callback, which restarts the schedule."""
    callback.params["restarts"] = True  # All callbacks of a `fit` share this dict.


class ScheduleLength(keras.callbacks.Callback):
    """Logs a warning when the first epoch begins if the optimizer's schedule ends before the run."""

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)


def warn_in_epoch(callback, epoch):
    """Calls `warn_if_shorter` at the beginning of an epoch, after a training checkpoint has been restored."""
    steps = callback.params.get("steps")
    if steps is not None and not callback.params.get("restarts"):
        warn_if_shorter(callback.model.optimizer, (callback.params["epochs"] - epoch) * steps)


def find_schedules(optimizer):
    """Returns the serialized configs of the schedules in an optimizer and in the optimizers that it wraps."""
    found = []

    def look(value):
        if isinstance(value, dict):
            rate = value.get("learning_rate")
            if isinstance(rate, dict) and isinstance(rate.get("config"), dict):
                found.append(rate)
            for part in value.values():
                look(part)
        elif isinstance(value, list | tuple):
            for part in value:
                look(part)

    with warnings.catch_warnings():  # Keras warns that saving a lambda is unsafe.
        warnings.simplefilter("ignore")
        with contextlib.suppress(OSError):  # Keras raises this if the source is unknown.
            look(optimizer.get_config())
    return found
