"""One answer for a text: a class, several classes, a number, a choice."""

from keras_transfer.tasks.classification.multiple_choice import MultipleChoice
from keras_transfer.tasks.classification.text_classifier import TextClassifier
from keras_transfer.tasks.classification.text_regressor import TextRegressor

__all__ = [
    "MultipleChoice",
    "TextClassifier",
    "TextRegressor",
]
