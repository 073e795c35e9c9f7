"""Optimizers for pretrained models, and schedules of their learning rates."""

from keras_transfer.optimizers import schedules
from keras_transfer.training import NTASGD, FusedAdamW, LayerwiseOptimizer

__all__ = ["NTASGD", "FusedAdamW", "LayerwiseOptimizer", "schedules"]
