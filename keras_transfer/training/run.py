"""The context of a run: what Keras does not tell callbacks, and cleaning up when the run ends or fails."""

import dataclasses

import keras


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
        settings: Dict of the other settings of `fit` that influence the result.
    """

    data: object
    callbacks: list
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


def sync(model):
    """Updates the variables during an epoch, when Keras on JAX keeps their values elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
