"""Features of frozen layers, computed once."""

from keras_transfer.adaptation.features.activations import row_ends
from keras_transfer.adaptation.features.cached_features import cache_features

__all__ = [
    "cache_features",
    "row_ends",
]
