"""Layers between an encoder and the loss: pooling, mixing, picking positions, and a random field."""

from keras_transfer.layers.heads.pair_features import PairFeatures
from keras_transfer.layers.heads.pooling import POOLINGS, SequencePooling
from keras_transfer.layers.heads.random_field import ConditionalRandomField
from keras_transfer.layers.heads.sampled_softmax import SampledSoftmax
from keras_transfer.layers.heads.scalar_mix import ScalarMix
from keras_transfer.layers.heads.token_positions import PositionLogits, SampleTokens, TakePositions, put_tokens

__all__ = [
    "POOLINGS",
    "ConditionalRandomField",
    "PairFeatures",
    "PositionLogits",
    "SampleTokens",
    "SampledSoftmax",
    "ScalarMix",
    "SequencePooling",
    "TakePositions",
    "put_tokens",
]
