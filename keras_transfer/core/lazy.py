"""TensorFlow as a module that is imported when one of its names is first used, as in Keras itself."""

import functools
import importlib
from typing import Any


class LazyModule:
    """Stands in for a package. `import keras_transfer` stays fast by it, and works without the package."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        # What Python asks of any object is no reason to import the package.
        if name.startswith("__") and name not in ("__internal__", "__version__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


tf: Any = LazyModule("tensorflow")


def constants(make):
    """Decorates a function that makes constants of a graph, which takes long, so that the last ones are kept.

    They belong to no function that is being traced, which would keep them in its own graph, and lie on the CPU.
    """

    @functools.lru_cache(maxsize=4)
    @functools.wraps(make)
    def made(*args):
        with tf.init_scope(), tf.device("CPU:0"):
            return make(*args)

    return made
