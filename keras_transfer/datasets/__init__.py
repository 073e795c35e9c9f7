"""Readers of the field's files, and small data that is packaged."""

from keras_transfer.datasets.dataset import Dataset, Split
from keras_transfer.datasets.questions import TREC_FILES, load_questions, load_trec6

__all__ = ["TREC_FILES", "Dataset", "Split", "load_questions", "load_trec6"]
