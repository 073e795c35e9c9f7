"""Modules of TensorFlow 1, and their gradients."""

from keras_transfer.hub.tf1.module import is_loaded_tf1_module, open_loaded_tf1_module, open_tf1_module

__all__ = [
    "is_loaded_tf1_module",
    "open_loaded_tf1_module",
    "open_tf1_module",
]
