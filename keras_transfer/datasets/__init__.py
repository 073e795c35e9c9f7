"""Readers of the field's files, and small data that is packaged."""

from keras_transfer.datasets.dataset import Dataset, Split
from keras_transfer.datasets.questions import load_questions, load_trec6

__all__ = ["Dataset", "Split", "load_questions", "load_trec6"]
