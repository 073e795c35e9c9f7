"""Encoder-decoders, which encode one text and write another."""

from keras_transfer.encoders.sequence_to_sequence.bart import Bart, BartEncoder, BartSingleText, Marian, MBart, Pegasus
from keras_transfer.encoders.sequence_to_sequence.composed import ComposedEncoderDecoder
from keras_transfer.encoders.sequence_to_sequence.encoder_decoder import EncoderDecoder
from keras_transfer.encoders.sequence_to_sequence.t5 import T5, T5Encoder
from keras_transfer.encoders.sequence_to_sequence.unilm import UniLM

__all__ = [
    "T5",
    "Bart",
    "BartEncoder",
    "BartSingleText",
    "ComposedEncoderDecoder",
    "EncoderDecoder",
    "MBart",
    "Marian",
    "Pegasus",
    "T5Encoder",
    "UniLM",
]
