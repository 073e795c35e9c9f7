"""Callbacks of `fit`: stages of unfreezing, training checkpoints, and what they measure."""

from keras_transfer.training import (
    ChainThaw,
    GenerationMetrics,
    GradualUnfreezing,
    NonMonotonicTrigger,
    PenaltyLogger,
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
    "SequentialUnfreezing",
    "Stage",
    "StagedTraining",
    "TrainingCheckpoint",
]
