"""State that a process would keep from one test to the next: models are freed, and seeds are set."""

import ctypes
import gc
import os
import pathlib
import sys

import keras

_set_random_seed = keras.utils.set_random_seed
MEMORY = 2.5e9  # bytes from which the programs of JAX and the kernels of TensorFlow are freed
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


def memory():
    """Returns the bytes of memory that this process uses, or 0 if they are not known."""
    if sys.platform != "linux":
        return 0
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def return_memory():
    """Returns freed memory to the system."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def forget_programs():
    """Frees the programs that JAX has compiled, if they take much memory. Later tests may need the same ones again."""
    if "jax" in sys.modules and (memory() or MEMORY) >= MEMORY:
        sys.modules["jax"].clear_caches()
        gc.collect()
        return_memory()


def clear():
    """Frees the memory of earlier tests, so that no process grows and no test depends on what ran before."""
    keras.utils.clear_session(free_memory=False)
    if keras.backend.backend() == "tensorflow":
        forget_gradients()
    forget_programs()
    gc.collect()
    gc.freeze()  # What is left stays for ever. Later collections need not look at it.
    return_memory()
