"""Records of the autoregressive Transformers, one architecture a file."""

from keras_transfer.checkpoints.architectures.autoregressive import gpt, gpt2, xlnet

__all__ = [
    "gpt",
    "gpt2",
    "xlnet",
]
