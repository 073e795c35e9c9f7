"""TensorFlow, which runs everything in `text`, and is imported when it is first used."""

import functools
import importlib
from typing import Any


class _Lazy:
    """Stands in for a package. `import keras_transfer` stays fast by it, and works without the package."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):  # What Python asks of any object is no reason to import the package.
            raise AttributeError(name)
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


tf: Any = _Lazy("tensorflow")


def constants(make):
    """Decorates a function that makes constants of the graph, which takes long, so that the last ones are kept.

    They belong to no function that is being traced, which would keep them in its own graph, and lie on the CPU.
    """

    @functools.lru_cache(maxsize=4)
    @functools.wraps(make)
    def made(*args):
        with tf.init_scope(), tf.device("CPU:0"):
            return make(*args)

    return made
