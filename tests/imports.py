"""Imports Keras and KerasHub faster: without packages that they and TensorFlow import if they are installed."""

import contextlib
import gc
import importlib
import os
import sys

# TensorFlow Lite imports JAX, Keras imports the next two for its own plots and wrappers, and KerasHub imports
# `rouge_score`, which loads NLTK and SciPy, for its own metrics. No test uses any of these.
UNUSED = ("matplotlib", "sklearn", "rouge_score") + ("jax",) * (os.environ.get("KERAS_BACKEND") != "jax")


def import_quickly(*packages, without=()):
    """Imports packages, if they are there, as if `without` and those that they do not need were missing.

    Afterwards, tests can import what was missing. Garbage is not collected, since imports leave hardly any.
    """
    gc.disable()
    hidden = [name for name in (*UNUSED, *without) if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        for name in packages:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.enable()
