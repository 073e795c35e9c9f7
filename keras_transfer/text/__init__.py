"""From raw text to ids: tokenizers, packing, preprocessors that run in the graph, and batches by length."""

from keras_transfer.batches import (
    Batches,
    batches,
    part_batches,
    span_batches,
    word_batches,
)
from keras_transfer.text.base import Packing, Preprocessor
from keras_transfer.text.preprocessors import (
    BertPreprocessor,
    ElmoPreprocessor,
    PlainText,
    TokenPreprocessor,
    WindowPreprocessor,
    WordPreprocessor,
    dialogue_inputs,
)
from keras_transfer.text.tokenizers import (
    ByteBPETokenizer,
    GPTTokenizer,
    SentencePieceBPETokenizer,
    Tokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
    train_vocabulary,
)

__all__ = [
    "Batches",
    "BertPreprocessor",
    "ByteBPETokenizer",
    "ElmoPreprocessor",
    "GPTTokenizer",
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
    "part_batches",
    "span_batches",
    "train_vocabulary",
    "word_batches",
]
