"""Datasets of questions with a choice of answers, or with answers in a text."""

from keras_transfer.datasets.answers.multiple_choice import Choices, add_copa

__all__ = [
    "Choices",
    "add_copa",
]
