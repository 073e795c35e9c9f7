"""Imports Keras faster: without optional packages that it and TensorFlow import if they are installed."""

import importlib
import os
import sys

# TensorFlow Lite imports JAX, and Keras imports the others for its own plots and wrappers, which no test uses.
UNUSED = ("matplotlib", "sklearn") + ("jax",) * (os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow")


def import_keras():
    """Imports Keras as if the packages that it does not need were missing. Afterwards, they can be imported."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        importlib.import_module("keras")
    finally:
        for name in hidden:
            del sys.modules[name]
