"""Pretrained encoders, one file an architecture, behind one protocol: token ids in, vectors out."""

from keras_transfer.encoders.bert import BertEncoder
from keras_transfer.encoders.elmo import ElmoEncoder
from keras_transfer.encoders.encoder import Encoded, Encoder, encode
from keras_transfer.encoders.roberta import RobertaEncoder
from keras_transfer.encoders.transformer import TransformerEncoder
from keras_transfer.encoders.word_vectors import WordVectorEncoder

__all__ = [
    "BertEncoder",
    "ElmoEncoder",
    "Encoded",
    "Encoder",
    "RobertaEncoder",
    "TransformerEncoder",
    "WordVectorEncoder",
    "encode",
]
