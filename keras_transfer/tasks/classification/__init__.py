"""One answer for a text: a class, several classes, a number, a choice."""

from keras_transfer.tasks.classification.text_classifier import TextClassifier

__all__ = [
    "TextClassifier",
]
