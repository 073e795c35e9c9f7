"""Pretrained encoders, one file an architecture, behind one protocol: token ids in, vectors out."""

from keras_transfer.encoders.bert import BertEncoder
from keras_transfer.encoders.encoder import Encoded, Encoder, encode
from keras_transfer.encoders.transformer import TransformerEncoder

__all__ = ["BertEncoder", "Encoded", "Encoder", "TransformerEncoder", "encode"]
