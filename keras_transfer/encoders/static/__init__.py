"""Encoders without context: the vectors of words."""

from keras_transfer.encoders.static.word_vectors import WordVectorEncoder

__all__ = [
    "WordVectorEncoder",
]
