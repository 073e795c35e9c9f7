"""Corpora: text of any size as ids in files on the disk, and its rows as batches."""

from keras_transfer.corpora.corpus import Corpus
from keras_transfer.corpora.sentence_streams import word_streams

__all__ = ["Corpus", "word_streams"]
