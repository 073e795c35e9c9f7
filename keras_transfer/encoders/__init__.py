"""Pretrained encoders, one file per architecture, behind one protocol: they turn token ids into vectors."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.encoders.autoregressive.gpt import GPTEncoder
from keras_transfer.encoders.autoregressive.gpt2 import GPT2Encoder
from keras_transfer.encoders.autoregressive.xlnet import XLNetEncoder
from keras_transfer.encoders.bidirectional.albert import AlbertEncoder
from keras_transfer.encoders.bidirectional.bert import BertEncoder
from keras_transfer.encoders.bidirectional.deberta_v2 import DebertaV2Encoder
from keras_transfer.encoders.bidirectional.distilbert import DistilBertEncoder
from keras_transfer.encoders.bidirectional.electra import ElectraEncoder
from keras_transfer.encoders.bidirectional.modernbert import ModernBertEncoder
from keras_transfer.encoders.bidirectional.mpnet import MPNetEncoder
from keras_transfer.encoders.bidirectional.roberta import RobertaEncoder
from keras_transfer.encoders.bidirectional.xlm import XlmEncoder
from keras_transfer.encoders.encoder import Encoded, Encoder, encode
from keras_transfer.encoders.recurrent.awd_lstm import AWDLSTMEncoder, AWDQRNNEncoder
from keras_transfer.encoders.recurrent.elmo import ElmoEncoder
from keras_transfer.encoders.sequence_to_sequence.bart import Bart, BartEncoder, BartSingleText, Marian, MBart, Pegasus
from keras_transfer.encoders.sequence_to_sequence.composed import ComposedEncoderDecoder
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.sequence_to_sequence.t5 import T5, T5Encoder
from keras_transfer.encoders.sequence_to_sequence.unilm import UniLM
from keras_transfer.encoders.transformer import TransformerEncoder
from keras_transfer.encoders.word_vectors import WordVectorEncoder

# isort: split
# For other subpackages, not for users.
from keras_transfer.encoders.attached import attached_to
from keras_transfer.encoders.encoder import above, check_ids, dense_on, initializer_on, select_inputs, token_states
from keras_transfer.encoders.hidden_states import named_hidden_states
from keras_transfer.encoders.keras_hub_backbone import (
    BackboneEncoder,
    backbone_groups,
    current_encoder,
    is_backbone,
    is_keras_hub,
)
from keras_transfer.encoders.quantization import Quantizes, by_path, is_quantized, quantization_of, quantize_again
from keras_transfer.encoders.sharing import have_same_embeddings, with_embeddings_of
from keras_transfer.encoders.stack import MASKS, TransformerStack, carries_state, decodes_with_cache
from keras_transfer.encoders.traced import TracesAgain
from keras_transfer.encoders.weight_facts import (
    LoadsOwnWeights,
    store_weight_facts,
    without_weight_facts,
)

__all__ = [
    "T5",
    "AWDLSTMEncoder",
    "AWDQRNNEncoder",
    "AlbertEncoder",
    "Bart",
    "BartEncoder",
    "BartSingleText",
    "BertEncoder",
    "ComposedEncoderDecoder",
    "DebertaV2Encoder",
    "DistilBertEncoder",
    "ElectraEncoder",
    "ElmoEncoder",
    "Encoded",
    "Encoder",
    "EncoderDecoder",
    "GPT2Encoder",
    "GPTEncoder",
    "MBart",
    "MPNetEncoder",
    "Marian",
    "ModernBertEncoder",
    "Pegasus",
    "RobertaEncoder",
    "T5Encoder",
    "TransformerEncoder",
    "UniLM",
    "WordVectorEncoder",
    "XLNetEncoder",
    "XlmEncoder",
    "encode",
]

open_door(sys.modules[__name__])
