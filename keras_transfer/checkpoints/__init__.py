"""Formats of pretrained weights, and one record per architecture with the names of its weights in these formats."""

import sys

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.building import CheckpointReport
from keras_transfer.checkpoints.checkpoint import load, load_preprocessor, resolve
from keras_transfer.checkpoints.model_card import ModelCard
from keras_transfer.checkpoints.tensors import CheckpointError
from keras_transfer.checkpoints.uploading import push_to_hub
from keras_transfer.checkpoints.word_vectors import WordVectors
from keras_transfer.core.door import open_door

# isort: split
# For other subpackages, not for users.
from keras_transfer.checkpoints import huggingface, presets
from keras_transfer.checkpoints.architecture import architecture_for
from keras_transfer.checkpoints.checkpoint import (
    encoder_entries,
    head_entries,
    open_checkpoint,
    save,
    tensor_names,
)
from keras_transfer.checkpoints.composing import compose
from keras_transfer.checkpoints.heads import Head, TaskHead, check_head, find_head
from keras_transfer.checkpoints.model_card import CARD, ModelFacts, keep_own_card, remove_card
from keras_transfer.checkpoints.uploading import full_repo_id

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

open_door(sys.modules[__name__])
