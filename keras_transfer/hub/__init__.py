"""TF Hub modules and other SavedModels as Keras layers, encoders and preprocessors."""

from keras_transfer.hub.layers import HubEncoder, HubLayer, HubPreprocessor, moved_handles
from keras_transfer.hub.transport import HubError, resolve

__all__ = [
    "HubEncoder",
    "HubError",
    "HubLayer",
    "HubPreprocessor",
    "moved_handles",
    "resolve",
]
