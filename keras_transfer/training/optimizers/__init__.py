"""Optimizers: layer-wise rates, penalties toward the start, schedules, and fused updates."""

from keras_transfer.training.optimizers.building import build_optimizer, restart_optimizer
from keras_transfer.training.optimizers.fused_adamw import FusedAdamW
from keras_transfer.training.optimizers.gradients import train_step
from keras_transfer.training.optimizers.layerwise import LayerwiseOptimizer
from keras_transfer.training.optimizers.ntasgd import NTASGD
from keras_transfer.training.optimizers.penalties import EWC, L2SP
from keras_transfer.training.optimizers.penalty_metric import PenaltyLogger
from keras_transfer.training.optimizers.rates import check_schedule_free, fine_tuning_rate, is_number, rate_of
from keras_transfer.training.optimizers.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
    WindowRate,
)

__all__ = [
    "EWC",
    "L2SP",
    "NTASGD",
    "FusedAdamW",
    "InverseSquareRoot",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "OneCycle",
    "PenaltyLogger",
    "SlantedTriangular",
    "WarmupCosine",
    "WindowRate",
    "build_optimizer",
    "check_schedule_free",
    "fine_tuning_rate",
    "is_number",
    "rate_of",
    "restart_optimizer",
    "train_step",
]
