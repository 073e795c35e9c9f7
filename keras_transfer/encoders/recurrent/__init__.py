"""Recurrent encoders."""

from keras_transfer.encoders.recurrent.elmo import ElmoEncoder

__all__ = [
    "ElmoEncoder",
]
