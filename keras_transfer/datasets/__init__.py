"""Readers of common file formats, and small packaged datasets."""

from keras_transfer.datasets.conllu import (
    TaggedDataset,
    TaggedSentences,
    load_universal_dependencies,
    read_conllu,
)
from keras_transfer.datasets.dataset import Dataset, Split, hold_out
from keras_transfer.datasets.questions import TREC_FILES, load_questions, load_trec6

__all__ = [
    "TREC_FILES",
    "Dataset",
    "Split",
    "TaggedDataset",
    "TaggedSentences",
    "hold_out",
    "load_questions",
    "load_trec6",
    "load_universal_dependencies",
    "read_conllu",
]
