"""The initial weights of layers, which a checkpoint may replace."""

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


def make_dense(layer, units, name, input_shape):
    """Returns a built `Dense` layer with the `use_bias`, `kernel_initializer` and dtype policy of `layer`."""
    dense = keras.layers.Dense(
        units,
        use_bias=layer.use_bias,
        # A clone for each kernel: kernels of one initializer instance would start from the same numbers.
        kernel_initializer=layer.kernel_initializer.clone(),
        dtype=layer.dtype_policy,
        name=name,
    )
    dense.build(input_shape)
    return dense
