"""Preprocessors: from texts, pairs or sentences of words to the inputs of an encoder."""

from keras_transfer.text.preprocessors.bert import BertPreprocessor, load_word_piece
from keras_transfer.text.preprocessors.dialogue import dialogue_inputs
from keras_transfer.text.preprocessors.elmo import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    NUM_CHARACTERS,
    PAD_CHARACTER,
    ElmoPreprocessor,
)
from keras_transfer.text.preprocessors.plain import PlainText
from keras_transfer.text.preprocessors.predicted_words import BEGIN, END
from keras_transfer.text.preprocessors.token_preprocessor import TokenPreprocessor
from keras_transfer.text.preprocessors.truncation import count_truncated, warn_of_truncation
from keras_transfer.text.preprocessors.windows import WindowPreprocessor
from keras_transfer.text.preprocessors.word_level import character_offsets, check_word_level
from keras_transfer.text.preprocessors.words import WordPreprocessor

__all__ = [
    "BEGIN",
    "BEGIN_SENTENCE",
    "BEGIN_WORD",
    "END",
    "END_SENTENCE",
    "END_WORD",
    "NUM_CHARACTERS",
    "PAD_CHARACTER",
    "BertPreprocessor",
    "ElmoPreprocessor",
    "PlainText",
    "TokenPreprocessor",
    "WindowPreprocessor",
    "WordPreprocessor",
    "character_offsets",
    "check_word_level",
    "count_truncated",
    "dialogue_inputs",
    "load_word_piece",
    "warn_of_truncation",
]
