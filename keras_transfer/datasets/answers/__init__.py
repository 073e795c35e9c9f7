"""Datasets of questions with a choice of answers, or with answers in a text."""

from keras_transfer.datasets.answers.multiple_choice import Choices, add_copa, load_copa, load_race, load_swag
from keras_transfer.datasets.answers.squad import Answer, Questions, load_squad

__all__ = [
    "Answer",
    "Choices",
    "Questions",
    "add_copa",
    "load_copa",
    "load_race",
    "load_squad",
    "load_swag",
]
