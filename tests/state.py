"""What a process keeps of the models that a test has made, and how it lets go of them."""

import ctypes
import gc
import sys

import keras


def clear():
    """Frees what earlier tests have made, so that no process grows and no test sees what ran before it."""
    keras.utils.clear_session(free_memory=False)
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
