"""From the name of a source to its folder, and from the folder to the format that reads it."""

from keras_transfer.checkpoints.sources.composing import compose
from keras_transfer.checkpoints.sources.registry import (
    check_length,
    encoder_entries,
    head_entries,
    head_prefixes,
    load,
    open_checkpoint,
    plain_name,
    save,
    tensor_names,
)

__all__ = [
    "check_length",
    "compose",
    "encoder_entries",
    "head_entries",
    "head_prefixes",
    "load",
    "open_checkpoint",
    "plain_name",
    "save",
    "tensor_names",
]
