"""Optimizers for pretrained models, and schedules of their learning rates."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.optimizers import schedules
from keras_transfer.training import NTASGD, FusedAdamW, LayerwiseOptimizer

__all__ = ["NTASGD", "FusedAdamW", "LayerwiseOptimizer", "schedules"]

open_door(sys.modules[__name__])
