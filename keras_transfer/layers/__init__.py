"""Building blocks of the encoders. They do not depend on the other rooms."""

from keras_transfer.layers.activations import gelu_tanh, get_activation
from keras_transfer.layers.attention import MultiHeadAttention
from keras_transfer.layers.attention_bias import AttentionBias
from keras_transfer.layers.bottleneck import BottleneckAdapter
from keras_transfer.layers.characters import CharacterCNN
from keras_transfer.layers.convolution_block import ConvolutionBlock
from keras_transfer.layers.disentangled import DisentangledAttention, DistanceEmbedding
from keras_transfer.layers.dropout import Dropout
from keras_transfer.layers.embeddings import PositionEmbedding, SegmentEmbedding
from keras_transfer.layers.feed_forward import FeedForward, GatedFeedForward
from keras_transfer.layers.normalization import LayerNormalization
from keras_transfer.layers.output_embeddings import OutputEmbeddings
from keras_transfer.layers.pair_features import PairFeatures
from keras_transfer.layers.pooling import SequencePooling
from keras_transfer.layers.positions import PositionLogits, SampleTokens, TakePositions
from keras_transfer.layers.random_field import ConditionalRandomField
from keras_transfer.layers.recurrent import ProjectedLSTM
from keras_transfer.layers.relative_attention import RelativeAttention
from keras_transfer.layers.relative_positions import RelativePositionBias, RelativePositions
from keras_transfer.layers.rotary import RotaryPositions
from keras_transfer.layers.scalar_mix import ScalarMix
from keras_transfer.layers.speakers import SpeakerEmbedding
from keras_transfer.layers.transformer import TransformerBlock
from keras_transfer.layers.two_streams import TwoStreams

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
    "gelu_tanh",
    "get_activation",
]
