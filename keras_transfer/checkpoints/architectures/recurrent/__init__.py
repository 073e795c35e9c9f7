"""Records of the recurrent encoders, of which ELMo, textgenrnn and fastai have formats of their own."""

from keras_transfer.checkpoints.architectures.recurrent import elmo, fastai, textgenrnn

__all__ = [
    "elmo",
    "fastai",
    "textgenrnn",
]
