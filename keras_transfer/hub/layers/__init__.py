"""Modules as Keras layers, encoders and preprocessors."""

from keras_transfer.hub.layers.encoder import HubEncoder
from keras_transfer.hub.layers.layer import HubLayer
from keras_transfer.hub.layers.preprocessor import HubPreprocessor
from keras_transfer.hub.layers.trust import moved_handles

__all__ = [
    "HubEncoder",
    "HubLayer",
    "HubPreprocessor",
    "moved_handles",
]
