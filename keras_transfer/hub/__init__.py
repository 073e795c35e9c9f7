"""TF Hub modules and other SavedModels as Keras layers, encoders and preprocessors."""

from keras_transfer.hub.layers.encoder import HubEncoder
from keras_transfer.hub.layers.layer import HubLayer
from keras_transfer.hub.layers.preprocessor import HubPreprocessor
from keras_transfer.hub.layers.trust import moved_handles
from keras_transfer.hub.transport.errors import HubError
from keras_transfer.hub.transport.handles import resolve

__all__ = [
    "HubEncoder",
    "HubError",
    "HubLayer",
    "HubPreprocessor",
    "moved_handles",
    "resolve",
]
