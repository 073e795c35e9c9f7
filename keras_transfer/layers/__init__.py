"""Building blocks of the encoders. They do not depend on the other rooms."""

from keras_transfer.layers.adapters import BottleneckAdapter
from keras_transfer.layers.attention import (
    AttentionBias,
    DisentangledAttention,
    DistanceEmbedding,
    MultiHeadAttention,
    RelativeAttention,
    RelativePositionBias,
    RelativePositions,
    RotaryPositions,
    TwoStreams,
)
from keras_transfer.layers.basic import Dropout, LayerNormalization
from keras_transfer.layers.blocks import (
    ConvolutionBlock,
    FeedForward,
    GatedFeedForward,
    ProjectedLSTM,
    TransformerBlock,
)
from keras_transfer.layers.embeddings import (
    CharacterCNN,
    OutputEmbeddings,
    PositionEmbedding,
    SegmentEmbedding,
    SpeakerEmbedding,
)
from keras_transfer.layers.heads import (
    ConditionalRandomField,
    PairFeatures,
    PositionLogits,
    SampleTokens,
    ScalarMix,
    SequencePooling,
    TakePositions,
)

__all__ = [
    "AttentionBias",
    "BottleneckAdapter",
    "CharacterCNN",
    "ConditionalRandomField",
    "ConvolutionBlock",
    "DisentangledAttention",
    "DistanceEmbedding",
    "Dropout",
    "FeedForward",
    "GatedFeedForward",
    "LayerNormalization",
    "MultiHeadAttention",
    "OutputEmbeddings",
    "PairFeatures",
    "PositionEmbedding",
    "PositionLogits",
    "ProjectedLSTM",
    "RelativeAttention",
    "RelativePositionBias",
    "RelativePositions",
    "RotaryPositions",
    "SampleTokens",
    "ScalarMix",
    "SegmentEmbedding",
    "SequencePooling",
    "SpeakerEmbedding",
    "TakePositions",
    "TransformerBlock",
    "TwoStreams",
]
