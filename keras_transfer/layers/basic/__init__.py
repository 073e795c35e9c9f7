"""Layers of any network: activations, dropout, normalization and initial weights."""

from keras_transfer.layers.basic.activation_penalty import ActivationPenalty
from keras_transfer.layers.basic.activations import (
    NamedActivation,
    activate,
    get_activation,
    serialize_activation,
)
from keras_transfer.layers.basic.cutoffs import Clusters
from keras_transfer.layers.basic.dropout import Dropout
from keras_transfer.layers.basic.initializers import TruncatedNormal, replaced_weights
from keras_transfer.layers.basic.normalization import LayerNormalization
from keras_transfer.layers.basic.sublayers import make_dense
from keras_transfer.layers.basic.variational_dropout import VariationalDropout

__all__ = [
    "ActivationPenalty",
    "Clusters",
    "Dropout",
    "LayerNormalization",
    "NamedActivation",
    "TruncatedNormal",
    "VariationalDropout",
    "activate",
    "get_activation",
    "make_dense",
    "replaced_weights",
    "serialize_activation",
]
