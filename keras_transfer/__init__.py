"""keras_transfer: transfer learning for NLP in plain Keras 3."""

# From the lowest floor to the highest: `text` lists names of `data`, which imports files of `text`.
# isort: off
import sys

from keras_transfer import distribute, layers, losses, metrics, objectives, text, datasets
from keras_transfer import encoders, generation
from keras_transfer import checkpoints, hub, callbacks, optimizers
from keras_transfer import tasks
from keras_transfer import adaptation
from keras_transfer import analysis, experiments, serving, wrappers

# isort: on
from keras_transfer.core.door import open_doors
from keras_transfer.core.precision import recommended_precision
from keras_transfer.version import __version__

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
open_doors(sys.modules[__name__])
