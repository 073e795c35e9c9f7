"""From raw text to ids: preprocessors that run in the graph, and batches of like length."""

from keras_transfer.text.batches import TextBatches, batches
from keras_transfer.text.bert import BertPreprocessor
from keras_transfer.text.elmo import ElmoPreprocessor
from keras_transfer.text.inputs import is_text, to_columns
from keras_transfer.text.plain import PlainText
from keras_transfer.text.preprocessor import Preprocessor
from keras_transfer.text.word_batches import WordBatches, word_batches
from keras_transfer.text.words import WordPreprocessor

__all__ = [
    "BertPreprocessor",
    "ElmoPreprocessor",
    "PlainText",
    "Preprocessor",
    "TextBatches",
    "WordBatches",
    "WordPreprocessor",
    "batches",
    "is_text",
    "to_columns",
    "word_batches",
]
