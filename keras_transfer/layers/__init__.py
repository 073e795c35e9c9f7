"""Building blocks of the encoders. They do not depend on other subpackages."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.layers.adapters.bottleneck import BottleneckAdapter
from keras_transfer.layers.attention.bias import AttentionBias, attention_pattern
from keras_transfer.layers.attention.disentangled import DisentangledAttention, DistanceEmbedding
from keras_transfer.layers.attention.multi_head import MultiHeadAttention
from keras_transfer.layers.attention.relative_attention import RelativeAttention
from keras_transfer.layers.attention.relative_positions import RelativePositionBias, RelativePositions
from keras_transfer.layers.attention.rotary import RotaryPositions
from keras_transfer.layers.attention.two_streams import TwoStreams
from keras_transfer.layers.basic.activation_penalty import ActivationPenalty
from keras_transfer.layers.basic.dropout import Dropout, EmbeddingDropout, VariationalDropout
from keras_transfer.layers.basic.normalization import LayerNormalization
from keras_transfer.layers.blocks.convolution import ConvolutionBlock
from keras_transfer.layers.blocks.feed_forward import FeedForward, GatedFeedForward
from keras_transfer.layers.blocks.quasi_recurrent import QRNN
from keras_transfer.layers.blocks.recurrent import ProjectedLSTM
from keras_transfer.layers.blocks.transformer import TransformerBlock
from keras_transfer.layers.embeddings.adaptive_embedding import AdaptiveEmbedding
from keras_transfer.layers.embeddings.characters import CharacterCNN
from keras_transfer.layers.embeddings.input_embeddings import (
    PositionEmbedding,
    SegmentEmbedding,
    SinusoidalPositions,
    SpeakerEmbedding,
)
from keras_transfer.layers.embeddings.output_embeddings import OutputEmbeddings
from keras_transfer.layers.heads.adaptive_softmax import AdaptiveSoftmax
from keras_transfer.layers.heads.pooling import PairFeatures, SequencePooling
from keras_transfer.layers.heads.random_field import ConditionalRandomField
from keras_transfer.layers.heads.sampled_softmax import SampledSoftmax
from keras_transfer.layers.heads.scalar_mix import ScalarMix
from keras_transfer.layers.heads.token_positions import PositionLogits, SampleTokens, TakePositions

# isort: split
# For other subpackages, not for users.
from keras_transfer.layers.adapters.bottleneck import uniform
from keras_transfer.layers.adapters.copies import WeightCopies, WeightSlot
from keras_transfer.layers.adapters.old_files import show_old_places
from keras_transfer.layers.adapters.wrapper import (
    Adapted,
    AdaptedBlock,
    AdaptedDense,
    AdaptedResidual,
    Adapter,
    adapter_policy,
    check_kernel,
    dense_axes,
    stand_in,
)
from keras_transfer.layers.attention.bias import HIDDEN, mask_bias
from keras_transfer.layers.attention.multi_head import batch_and_length
from keras_transfer.layers.attention.two_streams import TakeQueryStream
from keras_transfer.layers.basic.activations import get_activation, serialize_activation
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.initializers import TruncatedNormal, make_dense, replaced_weights
from keras_transfer.layers.blocks.transformer import make_norm
from keras_transfer.layers.embeddings.output_embeddings import table_of
from keras_transfer.layers.heads.pooling import POOLINGS
from keras_transfer.layers.heads.token_positions import put_tokens

__all__ = [
    "QRNN",
    "ActivationPenalty",
    "AdaptiveEmbedding",
    "AdaptiveSoftmax",
    "AttentionBias",
    "BottleneckAdapter",
    "CharacterCNN",
    "ConditionalRandomField",
    "ConvolutionBlock",
    "DisentangledAttention",
    "DistanceEmbedding",
    "Dropout",
    "EmbeddingDropout",
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
    "SampledSoftmax",
    "ScalarMix",
    "SegmentEmbedding",
    "SequencePooling",
    "SinusoidalPositions",
    "SpeakerEmbedding",
    "TakePositions",
    "TransformerBlock",
    "TwoStreams",
    "VariationalDropout",
    "attention_pattern",
]

open_door(sys.modules[__name__])
