"""Training checkpoints, from which a run that ended early continues."""

from keras_transfer.training.resume.folder_lock import lock_folder
from keras_transfer.training.resume.training_checkpoint import TrainingCheckpoint

__all__ = [
    "TrainingCheckpoint",
    "lock_folder",
]
