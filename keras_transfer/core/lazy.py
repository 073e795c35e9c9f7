"""TensorFlow as a module that is imported when one of its names is first used, as in Keras itself."""

import importlib
from typing import Any


class LazyModule:
    """Stands in for a module that takes seconds to import, or may not be installed."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        return getattr(importlib.import_module(self._name), name)


tf: Any = LazyModule("tensorflow")
