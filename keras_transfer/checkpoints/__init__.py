"""Formats of pretrained weights, and one record per architecture with the names of its weights in these formats."""

from keras_transfer.checkpoints import architectures  # noqa: F401 (it registers them)
from keras_transfer.checkpoints.base.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.base.building import CheckpointReport
from keras_transfer.checkpoints.base.tensors import CheckpointError
from keras_transfer.checkpoints.cards.model_card import ModelCard
from keras_transfer.checkpoints.cards.uploading import push_to_hub
from keras_transfer.checkpoints.sources.registry import load, load_preprocessor, resolve
from keras_transfer.checkpoints.word_vectors.vectors import WordVectors

__all__ = [
    "Architecture",
    "CheckpointError",
    "CheckpointReport",
    "ModelCard",
    "WordVectors",
    "load",
    "load_preprocessor",
    "push_to_hub",
    "register_architecture",
    "resolve",
]
