"""Records of the recurrent encoders, of which ELMo has a format of its own."""

from keras_transfer.checkpoints.architectures.recurrent import elmo

__all__ = [
    "elmo",
]
