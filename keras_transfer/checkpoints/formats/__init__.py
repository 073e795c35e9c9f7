"""The formats of checkpoints: Hugging Face, sentence-transformers, Google, KerasHub; and the files of torch."""

from keras_transfer.checkpoints.formats import google, huggingface, presets
from keras_transfer.checkpoints.formats.torch_files import read_strings, read_torch

__all__ = [
    "google",
    "huggingface",
    "presets",
    "read_strings",
    "read_torch",
]
