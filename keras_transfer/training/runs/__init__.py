"""Runs: what trains when, from freezing before `fit` to stages inside it."""

from keras_transfer.training.runs import steps
from keras_transfer.training.runs.freezing import freeze, freeze_to, trainable_summary, unfreeze
from keras_transfer.training.runs.run_length import ScheduleLength, warn_in_epoch
from keras_transfer.training.runs.stages import StagedFit
from keras_transfer.training.runs.staging import Stage
from keras_transfer.training.runs.unfreezing import ChainThaw, GradualUnfreezing, SequentialUnfreezing, StagedTraining

__all__ = [
    "ChainThaw",
    "GradualUnfreezing",
    "ScheduleLength",
    "SequentialUnfreezing",
    "Stage",
    "StagedFit",
    "StagedTraining",
    "freeze",
    "freeze_to",
    "steps",
    "trainable_summary",
    "unfreeze",
    "warn_in_epoch",
]
