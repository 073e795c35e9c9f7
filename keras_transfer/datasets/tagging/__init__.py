"""Datasets of tagged sentences."""

from keras_transfer.datasets.tagging.conll2003 import load_conll2003
from keras_transfer.datasets.tagging.conllu import TaggedSentences, load_universal_dependencies, read_conllu

__all__ = [
    "TaggedSentences",
    "load_conll2003",
    "load_universal_dependencies",
    "read_conllu",
]
