"""keras_transfer: transfer learning for NLP in plain Keras 3."""

import importlib
import sys
from typing import TYPE_CHECKING

# From the lowest floor to the highest: `text` lists names of `data`, which imports files of `text`.
# isort: off
from keras_transfer import distribute, layers, losses, metrics, objectives, text
from keras_transfer import encoders, generation
from keras_transfer import checkpoints, hub, callbacks, optimizers
from keras_transfer import tasks
from keras_transfer import adaptation

# isort: on
from keras_transfer.core.door import missing_name, open_door
from keras_transfer.core.precision import recommended_precision
from keras_transfer.version import __version__

if TYPE_CHECKING:
    from keras_transfer import analysis, datasets, experiments, serving, wrappers

__all__ = [
    "__version__",
    "adaptation",
    "analysis",
    "callbacks",
    "checkpoints",
    "datasets",
    "distribute",
    "encoders",
    "experiments",
    "generation",
    "hub",
    "layers",
    "losses",
    "metrics",
    "objectives",
    "optimizers",
    "recommended_precision",
    "serving",
    "tasks",
    "text",
    "wrappers",
]
# They define no class of a `.keras` file, so they can wait until they are used.
_LATER = ("analysis", "datasets", "experiments", "serving", "wrappers")


def __getattr__(name):
    if name in _LATER:
        return importlib.import_module(f"keras_transfer.{name}")
    return missing_name(sys.modules[__name__], name)


def __dir__():
    return sorted(__all__)


for _name in __all__:
    if _name not in _LATER:
        open_door(globals()[_name])
