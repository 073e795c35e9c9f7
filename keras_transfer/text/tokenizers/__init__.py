"""Tokenizers: from strings to ids, exactly as their originals do it."""

from keras_transfer.text.tokenizers.bpe import MERGES_FILE, BPETokenizer, tokens_of
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer, byte_characters
from keras_transfer.text.tokenizers.fastai import FastaiTokenizer
from keras_transfer.text.tokenizers.gpt import GPTTokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.sentencepiece_bpe import SentencePieceBPETokenizer
from keras_transfer.text.tokenizers.tokenizer import HasTokenizer, Tokenizer, check_offsets
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer
from keras_transfer.text.tokenizers.wordpiece import SPLIT_KEY, WordPieceTokenizer, read_folder

__all__ = [
    "MERGES_FILE",
    "SPLIT_KEY",
    "BPETokenizer",
    "ByteBPETokenizer",
    "FastaiTokenizer",
    "GPTTokenizer",
    "HasTokenizer",
    "MarianTokenizer",
    "SentencePieceBPETokenizer",
    "Tokenizer",
    "UnigramTokenizer",
    "WordPieceTokenizer",
    "byte_characters",
    "check_offsets",
    "read_folder",
    "tokens_of",
]
