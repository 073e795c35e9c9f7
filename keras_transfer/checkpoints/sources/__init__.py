"""From the name of a source to its folder, and from the folder to the format that reads it."""

from keras_transfer.checkpoints.sources.registry import (
    head_entries,
    head_prefixes,
    load,
    load_preprocessor,
    load_with_head,
    resolve,
    save,
    tensor_names,
)

__all__ = [
    "head_entries",
    "head_prefixes",
    "load",
    "load_preprocessor",
    "load_with_head",
    "resolve",
    "save",
    "tensor_names",
]
