"""Blocks, of which an encoder has several: Transformer, feed-forward, convolution and recurrent."""

from keras_transfer.layers.blocks.convolution import ConvolutionBlock
from keras_transfer.layers.blocks.feed_forward import FeedForward, GatedFeedForward
from keras_transfer.layers.blocks.quasi_recurrent import QRNN
from keras_transfer.layers.blocks.recurrent import ProjectedLSTM
from keras_transfer.layers.blocks.transformer import TransformerBlock

__all__ = [
    "QRNN",
    "ConvolutionBlock",
    "FeedForward",
    "GatedFeedForward",
    "ProjectedLSTM",
    "TransformerBlock",
]
