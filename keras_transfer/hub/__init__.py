"""TF Hub modules and other SavedModels as Keras layers, encoders and preprocessors."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.hub.errors import HubError
from keras_transfer.hub.handles import resolve
from keras_transfer.hub.hub_encoder import HubEncoder
from keras_transfer.hub.hub_layer import HubLayer
from keras_transfer.hub.hub_preprocessor import HubPreprocessor
from keras_transfer.hub.trust import moved_handles

__all__ = ["HubEncoder", "HubError", "HubLayer", "HubPreprocessor", "moved_handles", "resolve"]

open_door(sys.modules[__name__])
