"""Records of the recurrent encoders, with a format of their own."""

from keras_transfer.checkpoints.architectures.recurrent import elmo

__all__ = [
    "elmo",
]
