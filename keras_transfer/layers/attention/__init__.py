"""Attention: its masks, its positions, and its kinds."""

from keras_transfer.layers.attention.bias import HIDDEN, AttentionBias, mask_bias
from keras_transfer.layers.attention.disentangled import DisentangledAttention, DistanceEmbedding
from keras_transfer.layers.attention.multi_head import MultiHeadAttention, batch_and_length, output_shape
from keras_transfer.layers.attention.patterns import attention_pattern
from keras_transfer.layers.attention.relative_attention import RelativeAttention
from keras_transfer.layers.attention.relative_positions import RelativePositionBias, RelativePositions
from keras_transfer.layers.attention.rotary import RotaryPositions
from keras_transfer.layers.attention.two_streams import TakeQueryStream, TwoStreams

__all__ = [
    "HIDDEN",
    "AttentionBias",
    "DisentangledAttention",
    "DistanceEmbedding",
    "MultiHeadAttention",
    "RelativeAttention",
    "RelativePositionBias",
    "RelativePositions",
    "RotaryPositions",
    "TakeQueryStream",
    "TwoStreams",
    "attention_pattern",
    "batch_and_length",
    "mask_bias",
    "output_shape",
]
