"""Training checkpoints, from which a run that ended early continues."""

from keras_transfer.training.resume.training_checkpoint import TrainingCheckpoint

__all__ = [
    "TrainingCheckpoint",
]
