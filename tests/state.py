"""What a process keeps from one test to the next: models that were made, which are freed, and seeds, which are set."""

import ctypes
import gc
import os
import sys

import keras

_set_random_seed = keras.utils.set_random_seed
# Shifts every seed that a test sets, to see that what learns does not depend on it.
SEED = int(os.environ.get("KERAS_TRANSFER_TEST_SEED", 0))


def set_shifted_seed(seed):
    """Does what `keras.utils.set_random_seed` does, and adds KERAS_TRANSFER_TEST_SEED."""
    _set_random_seed(seed + SEED)


def forget_gradients():
    """Frees the graphs of training steps.

    TensorFlow keeps every custom gradient for ever, and each step that Keras traces has one: it sums over replicas.
    """
    from tensorflow.python.framework import ops

    kept = ops.gradient_registry._registry
    for name in [name for name in kept if name.startswith("CustomGradient-")]:
        del kept[name]


def clear():
    """Frees what earlier tests have made, so that no process grows and no test sees what ran before it."""
    keras.utils.clear_session(free_memory=False)
    if keras.backend.backend() == "tensorflow":
        forget_gradients()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
