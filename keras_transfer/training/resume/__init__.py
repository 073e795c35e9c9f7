"""Training checkpoints, from which a run that ended early continues."""

from keras_transfer.training.resume.checkpoint import Checkpoint
from keras_transfer.training.resume.folder_lock import lock_folder

__all__ = [
    "Checkpoint",
    "lock_folder",
]
