"""The context of a run: what Keras does not tell callbacks, and cleaning up when the run ends or fails."""

import dataclasses

import keras

from keras_transfer.batches import all_class_weights, as_pipeline, counting_epochs


class RunCallback(keras.callbacks.Callback):
    """Base class of callbacks that change a model, or hold a resource, until a run ends.

    Keras does not notify callbacks when `fit` fails. `fit` of a task and `fine_tune` call `close()` then. For `fit` of
    another model, use the callback as a context manager: `with callback: model.fit(..., callbacks=[callback])`.

    Attributes:
        run: The current `Run`, or `None` in `fit` of a model that is not a task.
    """

    run = None

    def close(self) -> None:
        """Restores what the callback has changed. Calling it again has no effect.

        Subclasses override this. By default, a callback has changed nothing.
        """

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@dataclasses.dataclass
class Run:
    """A context for one call of `fit`, with what Keras does not tell callbacks.

    Args:
        data: The dataset of the run, or the object that has its state.
        callbacks: List of all callbacks, in order.
        validates: Boolean. Whether the run validates, possibly not in each epoch.
        settings: Dict of the other settings of `fit` that influence the result.
    """

    data: object
    callbacks: list
    validates: bool
    settings: dict

    def __enter__(self):
        for callback in self._ours():
            callback.run = self
        return self

    def __exit__(self, *error):
        for callback in self._ours():
            callback.close()
            callback.run = None

    def _ours(self):
        return [callback for callback in self.callbacks if isinstance(callback, RunCallback)]


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
    run = Run(
        data if position is None else position,
        getattr(callbacks, "callbacks", callbacks),
        validation is not None,
        settings or {},
    )
    options = {**options, "validation_data": as_pipeline(validation)}
    if options.get("class_weight") is not None:
        options["class_weight"] = all_class_weights(options["class_weight"], pipeline)
    with run, counting_epochs(data, pipeline, callbacks) as callbacks:
        return fit(pipeline, callbacks=callbacks, **options)


def sync(model):
    """Updates the variables during an epoch, when Keras on JAX keeps their values elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
