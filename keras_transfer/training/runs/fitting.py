"""Calling Keras's `fit` in a `Run`, with the callbacks that every run has."""

import contextlib

import keras

from keras_transfer.batches import as_pipeline, counting_epochs
from keras_transfer.training.runs.accumulation import LastGradients
from keras_transfer.training.runs.averaging import ValidatedAverages
from keras_transfer.training.runs.run import Run


def fit_in_run(fit, data, callbacks, options, *, settings=None, position=None):
    """Calls `fit` in a `Run`, with batches in the fastest form for Keras.

    Args:
        fit: Method `fit` of a `keras.Model`.
        data: `Batches`, or anything else that `fit` accepts as `x`.
        callbacks: List of callbacks, or `keras.callbacks.CallbackList`.
        options: Dict of the other arguments of `fit`.
        settings: Dict for `Run`. Defaults to `None`, for no settings.
        position: Object with the state of the data, if `data` does not have it. Defaults to `None`.

    Returns:
        Keras's `History`.
    """
    pipeline = as_pipeline(data, may_end_early=True)  # A resumed epoch has fewer batches, and so has one of streams.
    validation = options.get("validation_data")
    given = getattr(callbacks, "callbacks", callbacks)
    # First, because all others see the weights that these leave.
    first = [LastGradients(), *([] if any(isinstance(c, ValidatedAverages) for c in given) else [ValidatedAverages()])]
    run = Run(data if position is None else position, [*first, *given], validation is not None, settings or {})
    options = {**options, "validation_data": as_pipeline(validation)}
    with run, _preceded(callbacks, first) as callbacks, counting_epochs(data, pipeline, callbacks) as callbacks:
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
