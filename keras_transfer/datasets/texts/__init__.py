"""Datasets of classified texts: reviews, news, questions, and tables of one's own."""

from keras_transfer.datasets.texts.questions import load_demo_questions

__all__ = [
    "load_demo_questions",
]
