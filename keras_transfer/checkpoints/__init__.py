"""Pretrained weights from files and back: one file a format, one an architecture; encoders know none of them."""

from keras_transfer.checkpoints.build import CheckpointReport
from keras_transfer.checkpoints.registry import load, load_preprocessor, resolve
from keras_transfer.checkpoints.tensors import CheckpointError

__all__ = ["CheckpointError", "CheckpointReport", "load", "load_preprocessor", "resolve"]
