"""Features of frozen layers, which are computed once."""

from keras_transfer.adaptation.features.activations import row_ends

__all__ = [
    "row_ends",
]
