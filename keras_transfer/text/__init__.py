"""From raw text to ids: tokenizers, packing, preprocessors that run in the graph, and batches by length."""

from keras_transfer.text.batching import TextBatches, batches
from keras_transfer.text.bert import BertPreprocessor
from keras_transfer.text.byte_bpe import ByteBPETokenizer
from keras_transfer.text.dialogue import dialogue_inputs
from keras_transfer.text.elmo import ElmoPreprocessor
from keras_transfer.text.gpt import GPTTokenizer
from keras_transfer.text.inputs import is_text, to_columns
from keras_transfer.text.packing import Packing
from keras_transfer.text.part_batching import PartBatches, part_batches
from keras_transfer.text.plain import PlainText
from keras_transfer.text.preprocessor import Preprocessor
from keras_transfer.text.sentencepiece_bpe import SentencePieceBPETokenizer
from keras_transfer.text.span_batching import span_batches
from keras_transfer.text.token_preprocessor import TokenPreprocessor
from keras_transfer.text.tokenizer import Tokenizer
from keras_transfer.text.unigram import UnigramTokenizer
from keras_transfer.text.vocabulary_training import train_vocabulary
from keras_transfer.text.windows import WindowPreprocessor
from keras_transfer.text.word_batching import WordBatches, word_batches
from keras_transfer.text.wordpiece import WordPieceTokenizer
from keras_transfer.text.words import WordPreprocessor

__all__ = [
    "BertPreprocessor",
    "ByteBPETokenizer",
    "ElmoPreprocessor",
    "GPTTokenizer",
    "Packing",
    "PartBatches",
    "PlainText",
    "Preprocessor",
    "SentencePieceBPETokenizer",
    "TextBatches",
    "TokenPreprocessor",
    "Tokenizer",
    "UnigramTokenizer",
    "WindowPreprocessor",
    "WordBatches",
    "WordPieceTokenizer",
    "WordPreprocessor",
    "batches",
    "dialogue_inputs",
    "is_text",
    "part_batches",
    "span_batches",
    "to_columns",
    "train_vocabulary",
    "word_batches",
]
