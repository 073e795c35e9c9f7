"""Exports that run without TensorFlow and Keras: a model from token ids to answers, and its tokenizer."""

from keras_transfer.serving.portable.folder import FORMATS, check_portable, write_portable
from keras_transfer.serving.portable.predict import Model
from keras_transfer.serving.portable.proof import Limits

__all__ = [
    "FORMATS",
    "Limits",
    "Model",
    "check_portable",
    "write_portable",
]
