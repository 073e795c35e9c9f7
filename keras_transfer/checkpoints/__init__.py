"""Formats of pretrained weights, and one record per architecture with the names of its weights in these formats."""

from keras_transfer.checkpoints import (  # noqa: F401 (they register their architectures)
    albert,
    bert,
    deberta_v2,
    distilbert,
    electra,
    elmo,
    gpt,
    gpt2,
    modernbert,
    mpnet,
    roberta,
    xlnet,
)
from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.building import CheckpointReport
from keras_transfer.checkpoints.registry import load, load_preprocessor, resolve
from keras_transfer.checkpoints.tensors import CheckpointError
from keras_transfer.checkpoints.word_vectors import WordVectors

__all__ = [
    "Architecture",
    "CheckpointError",
    "CheckpointReport",
    "WordVectors",
    "load",
    "load_preprocessor",
    "register_architecture",
    "resolve",
]
