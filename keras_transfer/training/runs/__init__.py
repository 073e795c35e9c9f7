"""Runs: which weights train when, from freezing before `fit` to stages inside it, and metrics after each epoch."""

from keras_transfer.training.runs.averaging import NonMonotonicTrigger
from keras_transfer.training.runs.epochs import epochs_of_steps
from keras_transfer.training.runs.fitting import fit_in_run
from keras_transfer.training.runs.freezing import freeze, freeze_to, trainable_summary, unfreeze
from keras_transfer.training.runs.generation_metrics import GenerationMetrics
from keras_transfer.training.runs.plans import ChainThaw, GradualUnfreezing, SequentialUnfreezing, StagedTraining
from keras_transfer.training.runs.run import RunCallback, sync
from keras_transfer.training.runs.run_length import ScheduleLength, warn_in_epoch
from keras_transfer.training.runs.stage import Stage
from keras_transfer.training.runs.stages import Stages

__all__ = [
    "ChainThaw",
    "GenerationMetrics",
    "GradualUnfreezing",
    "NonMonotonicTrigger",
    "RunCallback",
    "ScheduleLength",
    "SequentialUnfreezing",
    "Stage",
    "StagedTraining",
    "Stages",
    "epochs_of_steps",
    "fit_in_run",
    "freeze",
    "freeze_to",
    "sync",
    "trainable_summary",
    "unfreeze",
    "warn_in_epoch",
]
