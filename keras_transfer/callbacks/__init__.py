"""Callbacks of `fit`: stages of unfreezing, training checkpoints, and what they measure."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.training import (
    ChainThaw,
    GenerationMetrics,
    GradualUnfreezing,
    NonMonotonicTrigger,
    PenaltyLogger,
    RunCallback,
    SequentialUnfreezing,
    Stage,
    StagedTraining,
    TrainingCheckpoint,
)

__all__ = [
    "ChainThaw",
    "GenerationMetrics",
    "GradualUnfreezing",
    "NonMonotonicTrigger",
    "PenaltyLogger",
    "RunCallback",
    "SequentialUnfreezing",
    "Stage",
    "StagedTraining",
    "TrainingCheckpoint",
]

open_door(sys.modules[__name__])
