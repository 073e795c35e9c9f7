"""From raw text to ids: tokenizers, packing, preprocessors that run in the graph, and batches by length."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.data import Batches, Corpus, batches, part_batches, span_batches, word_batches, word_streams
from keras_transfer.text.bert_preprocessor import BertPreprocessor
from keras_transfer.text.dialogue import dialogue_inputs
from keras_transfer.text.elmo_preprocessor import ElmoPreprocessor
from keras_transfer.text.packing import Packing
from keras_transfer.text.plain_text import PlainText
from keras_transfer.text.predicted_words import word_vocabulary
from keras_transfer.text.preprocessor import Preprocessor
from keras_transfer.text.strings.fastai_rules import fastai_texts
from keras_transfer.text.token_preprocessor import TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer
from keras_transfer.text.tokenizers.fastai import FastaiTokenizer
from keras_transfer.text.tokenizers.gpt import GPTTokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.sentencepiece_bpe import SentencePieceBPETokenizer
from keras_transfer.text.tokenizers.tokenizer import Tokenizer
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer
from keras_transfer.text.tokenizers.vocabulary_training import train_vocabulary
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer
from keras_transfer.text.window_preprocessor import WindowPreprocessor
from keras_transfer.text.word_preprocessor import WordPreprocessor

# isort: split
# For other subpackages, not for users.
from keras_transfer.text.bert_preprocessor import load_word_piece
from keras_transfer.text.elmo_preprocessor import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    NUM_CHARACTERS,
    PAD_CHARACTER,
)
from keras_transfer.text.inputs import (
    check_batch_size,
    check_rows_of_batches,
    is_sentences,
    is_text,
    to_columns,
    to_list,
    to_sentences,
)
from keras_transfer.text.joint_preprocessor import JointPreprocessor
from keras_transfer.text.predicted_words import BEGIN, END
from keras_transfer.text.preprocessor import (
    DEFAULT_LENGTH,
    LengthError,
    WordLevelPreprocessor,
    character_offsets,
    check_word_level,
    preprocess,
)
from keras_transfer.text.special_tokens import is_language_code
from keras_transfer.text.strings.fastai_rules import BEGIN_TEXT
from keras_transfer.text.strings.pieces import align_ragged_right, take_pieces, without_first_space
from keras_transfer.text.strings.scripts import count_words
from keras_transfer.text.token_preprocessor import warn_of_truncation
from keras_transfer.text.tokenizer_files.formats import fast_content
from keras_transfer.text.tokenizer_files.settings import FAST_FILE

__all__ = [
    "Batches",
    "BertPreprocessor",
    "ByteBPETokenizer",
    "Corpus",
    "ElmoPreprocessor",
    "FastaiTokenizer",
    "GPTTokenizer",
    "MarianTokenizer",
    "Packing",
    "PlainText",
    "Preprocessor",
    "SentencePieceBPETokenizer",
    "TokenPreprocessor",
    "Tokenizer",
    "UnigramTokenizer",
    "WindowPreprocessor",
    "WordPieceTokenizer",
    "WordPreprocessor",
    "batches",
    "dialogue_inputs",
    "fastai_texts",
    "part_batches",
    "span_batches",
    "train_vocabulary",
    "word_batches",
    "word_streams",
    "word_vocabulary",
]

open_door(sys.modules[__name__])
