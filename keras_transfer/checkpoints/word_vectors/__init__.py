"""Files of word vectors, and the table that they contain."""

from keras_transfer.checkpoints.word_vectors.vectors import WordVectors

__all__ = [
    "WordVectors",
]
