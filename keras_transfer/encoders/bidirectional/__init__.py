"""Transformers that read a text in both directions, one architecture a file."""

from keras_transfer.encoders.bidirectional.albert import AlbertEncoder
from keras_transfer.encoders.bidirectional.bert import BertEncoder
from keras_transfer.encoders.bidirectional.deberta_v2 import DebertaV2Encoder
from keras_transfer.encoders.bidirectional.distilbert import DistilBertEncoder
from keras_transfer.encoders.bidirectional.electra import ElectraEncoder
from keras_transfer.encoders.bidirectional.modernbert import ModernBertEncoder
from keras_transfer.encoders.bidirectional.mpnet import MPNetEncoder
from keras_transfer.encoders.bidirectional.roberta import RobertaEncoder
from keras_transfer.encoders.bidirectional.xlm import XlmEncoder

__all__ = [
    "AlbertEncoder",
    "BertEncoder",
    "DebertaV2Encoder",
    "DistilBertEncoder",
    "ElectraEncoder",
    "MPNetEncoder",
    "ModernBertEncoder",
    "RobertaEncoder",
    "XlmEncoder",
]
