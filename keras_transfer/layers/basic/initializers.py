"""The initial weights of the encoders, which a checkpoint may replace."""

import contextlib
import contextvars

import keras
from keras import ops

_replaced = contextvars.ContextVar("replaced", default=False)


@contextlib.contextmanager
def replaced_weights():
    """A scope in which `TruncatedNormal` draws no random numbers, because a checkpoint replaces the weights."""
    token = _replaced.set(True)
    try:
        yield
    finally:
        _replaced.reset(token)


@keras.saving.register_keras_serializable(package="keras_transfer")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """Keras's initializer, except that it returns zeros while weights are loaded from a checkpoint."""

    def __call__(self, shape, dtype=None, **kwargs):
        return ops.zeros(shape, dtype) if _replaced.get() else super().__call__(shape, dtype, **kwargs)
