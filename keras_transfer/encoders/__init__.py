"""Pretrained encoders, one file per architecture, behind one protocol: they turn token ids into vectors."""

from keras_transfer.encoders.autoregressive import GPT2Encoder, GPTEncoder, XLNetEncoder
from keras_transfer.encoders.base import Encoded, Encoder, TransformerEncoder, encode
from keras_transfer.encoders.bidirectional import (
    AlbertEncoder,
    BertEncoder,
    DebertaV2Encoder,
    DistilBertEncoder,
    ElectraEncoder,
    ModernBertEncoder,
    MPNetEncoder,
    RobertaEncoder,
)
from keras_transfer.encoders.recurrent import ElmoEncoder
from keras_transfer.encoders.static import WordVectorEncoder

__all__ = [
    "AlbertEncoder",
    "BertEncoder",
    "DebertaV2Encoder",
    "DistilBertEncoder",
    "ElectraEncoder",
    "ElmoEncoder",
    "Encoded",
    "Encoder",
    "GPT2Encoder",
    "GPTEncoder",
    "MPNetEncoder",
    "ModernBertEncoder",
    "RobertaEncoder",
    "TransformerEncoder",
    "WordVectorEncoder",
    "XLNetEncoder",
    "encode",
]
