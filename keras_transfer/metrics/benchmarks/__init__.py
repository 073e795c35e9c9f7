"""The official scores of benchmarks."""

from keras_transfer.metrics.benchmarks.glue import glue_metrics
from keras_transfer.metrics.benchmarks.squad import squad_scores

__all__ = [
    "glue_metrics",
    "squad_scores",
]
