"""keras_transfer: transfer learning for NLP in plain Keras 3."""

import importlib
import sys
from typing import TYPE_CHECKING

from keras_transfer import layers, text  # `layers` registers a function; `text` is imported before `data`, as it needs.
from keras_transfer.core.door import missing_name
from keras_transfer.core.precision import recommended_precision
from keras_transfer.core.saved_classes import register_names
from keras_transfer.version import __version__

if TYPE_CHECKING:
    from keras_transfer import (
        adaptation,
        analysis,
        callbacks,
        checkpoints,
        datasets,
        distribute,
        encoders,
        experiments,
        generation,
        hub,
        losses,
        metrics,
        objectives,
        optimizers,
        serving,
        tasks,
        wrappers,
    )

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
register_names()


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"keras_transfer.{name}")
    return missing_name(sys.modules[__name__], name)


def __dir__():
    return sorted(__all__)
