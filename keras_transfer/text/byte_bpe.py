"""The byte-level BPE tokenizer of GPT-2, RoBERTa and ModernBERT."""

import functools
import json
import os
import pathlib

import keras

from keras_transfer.text.byte_pairs import encode_words, make_pairs, merge_pairs
from keras_transfer.text.gpt2_words import split_gpt2
from keras_transfer.text.normalizer import checked_utf8
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.string_table import look_up, make_table
from keras_transfer.text.tokenizer import Tokenizer

MERGES_FILE = "merges.txt"


@functools.lru_cache
def byte_characters():
    """Returns the list of the 256 characters that stand for bytes in vocabularies: a space is `"\u0120"`."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@keras.saving.register_keras_serializable(package="keras_transfer")
class ByteBPETokenizer(Tokenizer):
    """Splits texts into words as GPT-2 does, and merges the bytes of each word by byte-pair encoding.

    The ids are those of Hugging Face `tokenizers`. Every text can be expressed, so there is no unknown token. The space
    before a word belongs to the word. Texts never become the special tokens, however they are written.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, a dict from tokens to ids, or the path of a
            `vocab.json`. If `None`, call `load_assets` before the tokenizer is used. Defaults to `None`.
        merges: List of pairs of tokens in the order in which they are merged, or the path of a `merges.txt`. Required
            with `vocabulary`. Defaults to `None`.
        add_prefix_space: Boolean. Whether a space is put before a text that does not begin with one, so that its first
            word is like the others. Defaults to `False`.
        normalization: String. Unicode normalization of texts, `"NFC"` (ModernBERT), `"NFD"`, `"NFKC"`, `"NFKD"` or
            `None`. Defaults to `None`.
        added_tokens: List of strings. Tokens that are found in texts before these are split into words, such as
            ModernBERT's runs of spaces. The longest counts. Defaults to none.
        unk_token: String. A token that some checkpoints name, although no text becomes it. Defaults to `None`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary has duplicates, lacks a byte or a token of a merge, or has no merges.

    Example:
    ```python
    from keras_transfer.text.byte_bpe import byte_characters

    vocabulary = [*byte_characters(), "\u0120f", "il", "\u0120fil"]
    merges = [("\u0120", "f"), ("i", "l"), ("\u0120f", "il")]
    tokenizer = keras_transfer.text.ByteBPETokenizer(vocabulary, merges)
    ids = tokenizer.tokenize(["a film"])  # [[64, 258, 76]]
    tokenizer.detokenize(ids)  # ["a film"]
    ```

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2;
    https://github.com/openai/gpt-2 (`encoder.py`).
    """

    vocabulary_file = "vocab.json"

    def __init__(
        self,
        vocabulary=None,
        merges=None,
        add_prefix_space=False,
        normalization=None,
        added_tokens=(),
        unk_token=None,
        mask_token=None,
        eos_token=None,
    ):
        if normalization not in (None, "NFC", "NFD", "NFKC", "NFKD"):
            raise ValueError(
                "Invalid value for argument `normalization`. Expected None, 'NFC', 'NFD', 'NFKC' or 'NFKD'. "
                f"Received: normalization={normalization!r}"
            )
        self.add_prefix_space = bool(add_prefix_space)
        self.normalization = normalization
        self.added_tokens = list(added_tokens)
        self._merges = read_merges(merges) if isinstance(merges, str | os.PathLike) else merges
        if (vocabulary is None) != (merges is None):
            raise ValueError(
                "`vocabulary` and `merges` must be passed together. "
                f"Received: vocabulary={vocabulary!r:.60}, merges={merges!r:.60}"
            )
        if isinstance(vocabulary, dict):
            vocabulary = tokens_of(vocabulary)
        super().__init__(vocabulary, unk_token, mask_token, eos_token)

    def _read_vocabulary(self, path):
        return tokens_of(json.loads(pathlib.Path(path).read_text("utf-8")))

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        self._merges = [tuple(pair) for pair in self._merges]
        characters = byte_characters()
        if missing := [character for character in characters if character not in self._ids]:
            raise ValueError(
                "A byte-level vocabulary must contain a token for each of the 256 bytes. "
                f"Received: {len(missing)} are missing, starting with {missing[:5]}"
            )
        self.require(self.added_tokens)
        self._constants = None

    @property
    def merges(self):
        """List of pairs of tokens, in the order in which they are merged."""
        self._check_loaded()
        return self._merges

    def _tokenize(self, texts):
        import tensorflow as tf

        self._check_loaded()
        if self._constants is None:
            self._constants = _make_constants(tuple(self.vocabulary), tuple(self.merges), tuple(self.added_tokens))
        whole, merge = self._constants
        texts = checked_utf8(texts)
        if self.normalization:
            texts = import_tensorflow_text().normalize_utf8(texts, self.normalization)
        words = split_gpt2(texts, self.add_prefix_space, self.added_tokens)
        ids = encode_words(words.values, lambda words: look_up(whole, words, -1), merge)
        return tf.RaggedTensor.from_row_splits(ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False)

    def word_pieces(self, words):
        # A word is read as in the middle of a text.
        import tensorflow as tf

        return self._tokenize(tf.where(tf.strings.regex_full_match(words, "(?s) .*"), words, " " + words))

    def detokenize(self, ids):
        """Returns the texts of ids. Bytes that are not UTF-8, such as a part of a character, become U+FFFD.

        Args:
            ids: Int tensor or ragged tensor [batch, None], or [None] for a single text.

        Returns:
            A string tensor [batch], or a scalar.
        """
        import tensorflow as tf

        with tf.init_scope():
            table = tf.constant([_bytes_of(token) for token in self.vocabulary])
        texts = tf.strings.reduce_join(tf.gather(table, ids), axis=-1)
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")

    def get_config(self):
        return {
            "add_prefix_space": self.add_prefix_space,
            "normalization": self.normalization,
            "added_tokens": self.added_tokens,
            "unk_token": self.unk_token,
            "mask_token": self.mask_token,
            "eos_token": self.eos_token,
        }

    def save_assets(self, folder):
        """Writes `vocab.json` and `merges.txt` into a folder."""
        folder = pathlib.Path(folder)
        ids = json.dumps(self._ids, ensure_ascii=False)
        (folder / self.vocabulary_file).write_text(ids + "\n", "utf-8", newline="\n")
        write_merges(self.merges, folder)

    def load_assets(self, folder):
        self._merges = read_merges(pathlib.Path(folder) / MERGES_FILE)
        super().load_assets(folder)

    def to_json(self):
        """Returns the normalizer, pre-tokenizer, decoder and model of this tokenizer in a `tokenizer.json`."""
        byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
        return {
            "normalizer": {"type": self.normalization} if self.normalization else None,
            "pre_tokenizer": {**byte_level, "add_prefix_space": self.add_prefix_space},
            "decoder": {**byte_level, "add_prefix_space": True},
            "model": {
                "type": "BPE",
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "vocab": self._ids,
                "merges": [list(pair) for pair in self.merges],
            },
        }

    @classmethod
    def from_json(cls, fast, tokens, text_tokens, **special):
        """Returns the tokenizer of a `tokenizer.json`.

        Args:
            fast: Dict, the contents of the file.
            tokens: List of strings, the tokens in the order of their ids, including added ones.
            text_tokens: List of strings, those of the added tokens that are not special.
            **special: `unk_token`, `mask_token` and `eos_token`.

        Raises:
            ValueError: If it is not a byte-level BPE with the words of GPT-2.
        """
        normalizer = fast.get("normalizer") or {}
        byte_level = fast.get("pre_tokenizer") or {}
        if byte_level.get("type") != "ByteLevel" or not byte_level.get("use_regex", True):
            raise ValueError(f"The pre-tokenizer must be 'ByteLevel' with GPT-2's words. Received: {byte_level}")
        if normalizer.get("type") not in (None, "NFC", "NFD", "NFKC", "NFKD"):
            raise ValueError(f"The normalizer must be a Unicode normalization or null. Received: {normalizer}")
        return cls(
            tokens,
            merges_of(fast["model"]),
            byte_level.get("add_prefix_space", False),
            normalizer.get("type"),
            text_tokens,
            **special,
        )


def tokens_of(ids):
    """Returns the tokens of a dict from tokens to ids, in the order of their ids.

    Raises:
        ValueError: If the ids are not consecutive or do not start at 0.
    """
    tokens = sorted(ids, key=ids.get)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(
            "The ids of a vocabulary must be consecutive and start at 0. "
            f"Received: {len(tokens)} tokens with ids up to {ids[tokens[-1]]}"
        )
    return tokens


def merges_of(model):
    """Returns the merges of the BPE model of a `tokenizer.json` as a list of pairs.

    Raises:
        ValueError: If the model has settings that are not supported.
    """
    for key in ("continuing_subword_prefix", "dropout", "ignore_merges", "byte_fallback"):
        if model.get(key):
            raise ValueError(f"The BPE model must not have `{key}`. Received: {key}={model[key]!r}")
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]


def read_merges(path):
    """Returns the merges of a `merges.txt` as a list of pairs.

    Raises:
        ValueError: If a line is not two tokens.
    """
    lines = pathlib.Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if wrong := [merge for merge in merges if len(merge) != 2]:
        raise ValueError(f"Each line of {path} must be two tokens. Received: {' '.join(wrong[0])!r}")
    return merges


def write_merges(merges, folder):
    """Writes a `merges.txt` into a folder."""
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (pathlib.Path(folder) / MERGES_FILE).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")


@functools.lru_cache
def _byte_of_character():
    return {character: byte for byte, character in enumerate(byte_characters())}


def _bytes_of(token):
    """The bytes of a token. Some special tokens are not written in the characters of bytes."""
    table = _byte_of_character()
    if all(character in table for character in token):
        return bytes(table[character] for character in token)
    return token.encode("utf-8")


@functools.lru_cache(maxsize=4)
def _make_constants(vocabulary, merges, added_tokens):
    """Returns the table of the words that are tokens, and the function that merges the others.

    To make them from a large vocabulary takes long, so they are kept.
    """
    import tensorflow as tf

    ids = {token: index for index, token in enumerate(vocabulary)}
    # A function that is being traced would keep the constants in its own graph.
    with tf.init_scope(), tf.device("CPU:0"):
        pairs = make_pairs(merges, ids)
        byte_ids = tf.constant([ids[character] for character in byte_characters()], tf.int64)

        def merge(words):
            symbols = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)
            count = tf.size(words, tf.int64)
            rows = tf.repeat(tf.range(count), tf.strings.length(words))
            return merge_pairs(pairs, tf.gather(byte_ids, symbols), rows, count)

        tokens = tf.constant([_bytes_of(token) for token in vocabulary])
        # The bytes of nearly all tokens are merged to that token, but those of special tokens are not.
        merged = merge(tokens)
        own = (merged.row_lengths() == 1) & (
            tf.gather(merged.values, merged.row_starts()) == tf.range(len(vocabulary), dtype=tf.int64)
        )
        own |= tf.constant([token in set(added_tokens) for token in vocabulary])
        index = tf.where(own)[:, 0]
        whole = make_table(tf.gather(tokens, index), tf.cast(index, tf.int32))
    return whole, merge
