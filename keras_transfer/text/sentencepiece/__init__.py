"""SentencePiece's model file, and its rules for spaces and other characters."""

from keras_transfer.text.sentencepiece.graphemes import of_characters
from keras_transfer.text.sentencepiece.sentencepiece_model import (
    BPE,
    SPACE,
    UNIGRAM,
    PieceType,
    SentencePieceModel,
    normalized,
)
from keras_transfer.text.sentencepiece.text_steps import MODEL_STEP, SPACE_STEPS, STEPS, read_steps, write_steps
from keras_transfer.text.sentencepiece.unigram_words import normalize_spaces, split_spaces, split_words

__all__ = [
    "BPE",
    "MODEL_STEP",
    "SPACE",
    "SPACE_STEPS",
    "STEPS",
    "UNIGRAM",
    "PieceType",
    "SentencePieceModel",
    "normalize_spaces",
    "normalized",
    "of_characters",
    "read_steps",
    "split_spaces",
    "split_words",
    "write_steps",
]
