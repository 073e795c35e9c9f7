"""Recurrent encoders."""

from keras_transfer.encoders.recurrent.awd_lstm import AWDLSTMEncoder
from keras_transfer.encoders.recurrent.awd_qrnn import AWDQRNNEncoder
from keras_transfer.encoders.recurrent.elmo import ElmoEncoder

__all__ = [
    "AWDLSTMEncoder",
    "AWDQRNNEncoder",
    "ElmoEncoder",
]
