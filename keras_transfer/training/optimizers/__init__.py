"""Optimizers: rates for each layer, penalties toward the start, schedules, fused updates."""

from keras_transfer.training.optimizers.building import build_optimizer, restart_optimizer
from keras_transfer.training.optimizers.layerwise import LayerwiseOptimizer
from keras_transfer.training.optimizers.penalties import EWC, L2SP
from keras_transfer.training.optimizers.penalty_metric import PenaltyLogger
from keras_transfer.training.optimizers.prediction_penalty import PredictionPenalty
from keras_transfer.training.optimizers.rates import is_number
from keras_transfer.training.optimizers.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
)
from keras_transfer.training.optimizers.updates import fused_updates

__all__ = [
    "EWC",
    "L2SP",
    "InverseSquareRoot",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "OneCycle",
    "PenaltyLogger",
    "PredictionPenalty",
    "SlantedTriangular",
    "WarmupCosine",
    "build_optimizer",
    "fused_updates",
    "is_number",
    "restart_optimizer",
]
