"""Corpora: text of any size as ids in files on the disk, and its rows as batches."""

from keras_transfer.corpora.corpus import Corpus

__all__ = ["Corpus"]
