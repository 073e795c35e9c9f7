"""State that a process would keep from one test to the next: models are freed, and seeds are set."""

import ctypes
import gc
import os
import sys

import keras

_set_random_seed = keras.utils.set_random_seed
# Shifts every seed that a test sets, to check that training does not depend on it.
SEED = int(os.environ.get("KERAS_TRANSFER_TEST_SEED", 0))


def set_shifted_seed(seed):
    """Does what `keras.utils.set_random_seed` does, and adds KERAS_TRANSFER_TEST_SEED."""
    _set_random_seed(seed + SEED)


def forget_gradients():
    """Frees the graphs of training steps.

    TensorFlow keeps every custom gradient, and each step that Keras traces has one, which sums over replicas.
    """
    from tensorflow.python.framework import ops

    kept = ops.gradient_registry._registry
    for name in [name for name in kept if name.startswith("CustomGradient-")]:
        del kept[name]


def clear():
    """Frees the memory of earlier tests, so that no process grows and no test depends on what ran before."""
    keras.utils.clear_session(free_memory=False)
    if keras.backend.backend() == "tensorflow":
        forget_gradients()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    gc.freeze()  # What is left stays for ever. Later collections need not look at it.
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
