"""TensorFlow as a module that is imported when one of its names is first used, as in Keras itself."""

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
