"""Records of the recurrent encoders, of which ELMo and textgenrnn have formats of their own."""

from keras_transfer.checkpoints.architectures.recurrent import elmo, textgenrnn

__all__ = [
    "elmo",
    "textgenrnn",
]
