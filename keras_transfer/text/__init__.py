"""From raw text to ids: tokenizers, packing, preprocessors that run in the graph, and batches by length."""

from keras_transfer.batches import (
    Batches,
    batches,
    part_batches,
    span_batches,
    word_batches,
)
from keras_transfer.corpora import Corpus, word_streams
from keras_transfer.text.base.packing import Packing
from keras_transfer.text.base.preprocessor import Preprocessor
from keras_transfer.text.preprocessors.bert import BertPreprocessor
from keras_transfer.text.preprocessors.dialogue import dialogue_inputs
from keras_transfer.text.preprocessors.elmo import ElmoPreprocessor
from keras_transfer.text.preprocessors.plain import PlainText
from keras_transfer.text.preprocessors.predicted_words import word_vocabulary
from keras_transfer.text.preprocessors.token_preprocessor import TokenPreprocessor
from keras_transfer.text.preprocessors.windows import WindowPreprocessor
from keras_transfer.text.preprocessors.words import WordPreprocessor
from keras_transfer.text.strings.fastai_rules import fastai_texts
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer
from keras_transfer.text.tokenizers.fastai import FastaiTokenizer
from keras_transfer.text.tokenizers.gpt import GPTTokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.sentencepiece_bpe import SentencePieceBPETokenizer
from keras_transfer.text.tokenizers.tokenizer import Tokenizer
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer
from keras_transfer.text.tokenizers.vocabulary_training import train_vocabulary
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer

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
