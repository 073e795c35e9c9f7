"""Metrics of numbers: correlations."""

from keras_transfer.metrics.regression.correlations import PearsonCorrelation, SpearmanCorrelation

__all__ = [
    "PearsonCorrelation",
    "SpearmanCorrelation",
]
