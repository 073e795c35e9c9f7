"""Tagging: one label for each word."""

from keras_transfer.tasks.tagging.token_classifier import Entity, TokenClassifier

__all__ = [
    "Entity",
    "TokenClassifier",
]
