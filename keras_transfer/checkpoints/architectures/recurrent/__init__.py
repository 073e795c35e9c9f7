"""Records of the recurrent encoders, of which ELMo and fastai have formats of their own."""

from keras_transfer.checkpoints.architectures.recurrent import elmo, fastai

__all__ = [
    "elmo",
    "fastai",
]
