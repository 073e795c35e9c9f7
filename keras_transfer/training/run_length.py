"""Whether a learning rate schedule is as long as the run that it is for."""

import contextlib
import logging
import warnings
import weakref

import keras

log = logging.getLogger("keras_transfer")

# Optimizers to the last step that was warned of.
_warned = weakref.WeakKeyDictionary()


def warn_if_shorter(optimizer, total_steps):
    """Warns, once for a run, if the optimizer's schedule ends before the run does.

    A schedule counts what Keras passes it: batches, from the optimizer's first one on, also where gradients are
    gathered over several. A schedule without `total_steps`, or a plain rate, has no end.

    Args:
        optimizer: a Keras optimizer.
        total_steps: int, the batches of the coming run.

    Example:
    ```python
    from keras_transfer.training.run_length import warn_if_shorter

    schedule = keras_transfer.adaptation.SlantedTriangular(2e-4, total_steps=100)
    warn_if_shorter(keras.optimizers.AdamW(schedule), total_steps=400)
    ```
    """
    begin = int(keras.ops.convert_to_numpy(optimizer.iterations)) * accumulation_steps(optimizer)
    last = begin + total_steps
    lengths = {s["config"]["total_steps"]: s for s in find_schedules(optimizer) if s["config"].get("total_steps")}
    if not lengths or min(lengths) >= last or _warned.get(optimizer, 0) >= last:
        return
    _warned[optimizer] = last
    length = min(lengths)
    log.warning(
        "the learning rate's schedule, %s, ends at step %d, and this run at step %d%s: for the rest the rate stays at "
        "its last value. Build the schedule with total_steps=%d",
        lengths[length]["class_name"],
        length,
        last,
        f" (it begins at step {begin})" if begin else "",
        last,
    )


class ScheduleLength(keras.callbacks.Callback):
    """Looks, when the first epoch begins, whether the optimizer's schedule lasts as long as the run."""

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)


def warn_in_epoch(callback, epoch):
    """Warns as `warn_if_shorter`, at the beginning of an epoch, when what a checkpoint holds has been put in place."""
    steps = callback.params.get("steps")
    if steps is not None:
        warn_if_shorter(callback.model.optimizer, (callback.params["epochs"] - epoch) * steps)


def accumulation_steps(optimizer):
    """int, over how many batches an optimizer, or one that it wraps, gathers gradients."""
    most = 1
    while optimizer is not None:
        most = max(most, optimizer.gradient_accumulation_steps or 1)
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return most


def find_schedules(optimizer):
    """Returns the configs of the schedules in an optimizer and those that it wraps, as `keras.saving` writes them."""
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

    with warnings.catch_warnings():  # a rate may be a lambda: Keras warns that it cannot be saved safely,
        warnings.simplefilter("ignore")
        with contextlib.suppress(OSError):  # and fails where it cannot quote it
            look(optimizer.get_config())
    return found
