"""Tagging: one label for each word."""

from keras_transfer.tasks.tagging.token_classifier import TokenClassifier

__all__ = [
    "TokenClassifier",
]
