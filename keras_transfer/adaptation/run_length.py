"""Whether a learning rate schedule is as long as the run that it is for."""

import contextlib
import logging
import warnings
import weakref

import keras

from keras_transfer.adaptation import active

log = logging.getLogger("keras_transfer")

# optimizer -> the last step that it was warned about
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
    from keras_transfer.adaptation.run_length import warn_if_shorter

    schedule = keras_transfer.adaptation.SlantedTriangular(2e-4, total_steps=100)
    warn_if_shorter(keras.optimizers.AdamW(schedule), total_steps=400)
    ```
    """
    begin = int(keras.ops.convert_to_numpy(optimizer.iterations)) * active.accumulation_steps(optimizer)
    last = begin + total_steps
    lengths = {s["config"]["total_steps"]: s for s in find_schedules(optimizer) if s["config"].get("total_steps")}
    if not lengths or min(lengths) >= last or _warned.get(optimizer) == last:
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
