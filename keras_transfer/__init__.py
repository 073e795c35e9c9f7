"""keras_transfer: transfer learning for NLP in plain Keras 3."""

from keras_transfer import (
    adaptation,
    analysis,
    checkpoints,
    datasets,
    distribute,
    encoders,
    generation,
    hub,
    layers,
    losses,
    metrics,
    objectives,
    serving,
    tasks,
    text,
    wrappers,
)
from keras_transfer.version import __version__

__all__ = [
    "__version__",
    "adaptation",
    "analysis",
    "checkpoints",
    "datasets",
    "distribute",
    "encoders",
    "generation",
    "hub",
    "layers",
    "losses",
    "metrics",
    "objectives",
    "serving",
    "tasks",
    "text",
    "wrappers",
]
