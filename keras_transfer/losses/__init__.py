"""Losses that Keras lacks: for integer labels with a focus or smoothing."""

from keras_transfer.losses.classification import SmoothedCrossentropy, SparseFocalCrossentropy

__all__ = ["SmoothedCrossentropy", "SparseFocalCrossentropy"]
