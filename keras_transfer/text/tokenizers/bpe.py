"""The base class of tokenizers with merges: the vocabulary, the merges and their files."""

import json
import os
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.text.strings.byte_pairs import encode_words
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

MERGES_FILE = "merges.txt"


class BPETokenizer(Tokenizer):
    """Base class of the tokenizers that merge pairs of tokens.

    A subclass implements `_make()`, which returns the table of words that are tokens, the function that merges others,
    and what else `_tokenize` needs from the vocabulary and the merges.
    """

    vocabulary_file = "vocab.json"
    by_lines = False

    def __init__(self, vocabulary, merges, unk_token, mask_token, eos_token):
        rule = "`vocabulary` and `merges` must be passed together."
        expect((vocabulary is None) == (merges is None), rule, vocabulary=vocabulary, merges=merges)
        is_path = merges is None or isinstance(merges, str | os.PathLike)
        self._merges = (merges and read_merges(merges)) if is_path else pairs_of(merges, "`merges`")
        if isinstance(vocabulary, dict):
            vocabulary = tokens_of(vocabulary)
        super().__init__(vocabulary, unk_token, mask_token, eos_token)

    def _read_vocabulary(self, path):
        return tokens_of(json.loads(pathlib.Path(path).read_text("utf-8")))

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        self._merges = [tuple(pair) for pair in self._merges]
        self._made = None

    def __getstate__(self):
        return {**self.__dict__, "_made": None}  # TensorFlow's constants can neither be copied nor pickled.

    @property
    def merges(self) -> list:
        """List of pairs of tokens, in the order in which they are merged."""
        self._check_loaded()
        return self._merges

    def _encode(self, words):
        """Returns the ids of texts, given their words, both ragged tensors [batch, None]."""
        whole, merge, *_ = self._constants()
        ids = encode_words(words.values, whole, merge)
        return tf.RaggedTensor.from_row_splits(ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False)

    def _constants(self):
        self._check_loaded()
        if self._made is None:
            self._made = self._make()
        return self._made

    def save_assets(self, folder: str | os.PathLike) -> None:
        folder = pathlib.Path(folder)
        ids = json.dumps(self._ids, ensure_ascii=False)
        (folder / self.vocabulary_file).write_text(ids + "\n", "utf-8", newline="\n")
        self._write_merges(folder)

    def load_assets(self, folder: str | os.PathLike) -> None:
        self._merges = self._read_merges(pathlib.Path(folder))
        super().load_assets(folder)

    def _write_merges(self, folder):
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        (folder / MERGES_FILE).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")

    def _read_merges(self, folder):
        return read_merges(folder / MERGES_FILE)


def tokens_of(ids):
    """Returns the tokens of a dict from tokens to ids, in the order of their ids."""
    tokens = sorted(ids, key=ids.get)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(
            "The ids of a vocabulary must be consecutive and start at 0. "
            f"Received: {len(tokens)} tokens with ids up to {ids[tokens[-1]]}"
        )
    return tokens


def read_merges(path):
    """Returns the merges of a `merges.txt` as a list of pairs."""
    lines = pathlib.Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n").split("\n")
    return pairs_of([line for line in lines if line and not line.startswith("#version")], f"Each line of {path}")


def pairs_of(merges, what):
    """Returns merges that are pairs of tokens, or strings of two tokens, as a list of pairs."""
    found = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    wrong = [given for given, merge in zip(merges, found) if len(merge) != 2]
    expect(not wrong, f"{what} must be two tokens.", wrong=wrong[:1])
    return found
