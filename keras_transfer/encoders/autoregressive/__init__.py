"""Transformers that predict the next token, one architecture a file."""

from keras_transfer.encoders.autoregressive.gpt import GPTEncoder
from keras_transfer.encoders.autoregressive.gpt2 import GPT2Encoder
from keras_transfer.encoders.autoregressive.xlnet import XLNetEncoder

__all__ = ["GPT2Encoder", "GPTEncoder", "XLNetEncoder"]
