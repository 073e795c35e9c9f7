"""Pretrained encoders, one file per architecture, behind one protocol: they turn token ids into vectors."""

from keras_transfer.encoders.albert import AlbertEncoder
from keras_transfer.encoders.bert import BertEncoder
from keras_transfer.encoders.deberta_v2 import DebertaV2Encoder
from keras_transfer.encoders.distilbert import DistilBertEncoder
from keras_transfer.encoders.electra import ElectraEncoder
from keras_transfer.encoders.elmo import ElmoEncoder
from keras_transfer.encoders.encoder import Encoded, Encoder, encode
from keras_transfer.encoders.gpt import GPTEncoder
from keras_transfer.encoders.gpt2 import GPT2Encoder
from keras_transfer.encoders.modernbert import ModernBertEncoder
from keras_transfer.encoders.mpnet import MPNetEncoder
from keras_transfer.encoders.roberta import RobertaEncoder
from keras_transfer.encoders.transformer import TransformerEncoder
from keras_transfer.encoders.word_vectors import WordVectorEncoder
from keras_transfer.encoders.xlnet import XLNetEncoder

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
