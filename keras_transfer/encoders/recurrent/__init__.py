"""Recurrent encoders."""

from keras_transfer.encoders.recurrent.awd_lstm import AWDLSTMEncoder
from keras_transfer.encoders.recurrent.elmo import ElmoEncoder

__all__ = [
    "AWDLSTMEncoder",
    "ElmoEncoder",
]
