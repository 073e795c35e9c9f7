"""The byte-level BPE tokenizer of GPT-2, RoBERTa and ModernBERT."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.byte_pairs import make_pairs, make_whole, merge_pairs
from keras_transfer.text.strings.characters import characters_of_bytes, utf8_widths
from keras_transfer.text.strings.normalizer import checked_utf8
from keras_transfer.text.strings.splitting import put_space_before, split_around, split_gpt2
from keras_transfer.text.tokenizers.bpe import BPETokenizer


@functools.lru_cache
def byte_characters():
    """Returns the list of the 256 characters that stand for bytes in vocabularies: a space is `"\u0120"`."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@keras.saving.register_keras_serializable(package="keras_transfer")
class ByteBPETokenizer(BPETokenizer):
    """Splits texts into words as GPT-2 does, and merges the bytes of each word by byte-pair encoding.

    The ids are those of Hugging Face `tokenizers`. Any text can be expressed, so there is no unknown token. The space
    before a word belongs to the word. Text never becomes a special token, even if it is spelled like one.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, a dict from tokens to ids, or the path of a
            `vocab.json`. If `None`, call `load_assets` before the tokenizer is used. Defaults to `None`.
        merges: List of pairs of tokens in the order in which they are merged, or the path of a `merges.txt`. Required
            with `vocabulary`. Defaults to `None`.
        add_prefix_space: Boolean. Whether a space is put before a text that does not begin with one, so that its first
            word is tokenized like the others. Defaults to `False`.
        normalization: String. Unicode normalization of texts, `"NFC"` (ModernBERT), `"NFD"`, `"NFKC"`, `"NFKD"` or
            `None`. Defaults to `None`.
        added_tokens: List of strings. Tokens that are matched before texts are split into words, such as ModernBERT's
            runs of spaces. The longest match wins. Defaults to none.
        unk_token: String. Unknown token that some checkpoints name, although text never becomes this token. Defaults to
            `None`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary has duplicates, lacks a byte or a token of a merge, or has no merges.

    Example:
    ```python
    from keras_transfer.text.tokenizers.byte_bpe import byte_characters

    vocabulary = [*byte_characters(), "\u0120f", "il", "\u0120fil"]
    merges = [("\u0120", "f"), ("i", "l"), ("\u0120f", "il")]
    tokenizer = keras_transfer.text.ByteBPETokenizer(vocabulary, merges)
    ids = tokenizer.tokenize(["a film"])  # [[97, 258, 109]]
    tokenizer.detokenize(ids)  # ["a film"]
    ```

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2;
    https://github.com/openai/gpt-2 (`encoder.py`).
    """

    has_offsets = True

    @expects(normalization=one_of(None, "NFC", "NFD", "NFKC", "NFKD"))
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        merges: Sequence | None = None,
        *,
        add_prefix_space: bool = False,
        normalization: str | None = None,
        added_tokens: Sequence[str] = (),
        unk_token: str | None = None,
        mask_token: str | None = None,
        eos_token: str | None = None,
    ):
        self.add_prefix_space = bool(add_prefix_space)
        self.normalization = normalization
        self.added_tokens = list(added_tokens)
        super().__init__(vocabulary, merges, unk_token, mask_token, eos_token)

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        characters = byte_characters()
        missing = [character for character in characters if character not in self._ids]
        rule = "A byte-level vocabulary must contain a token for each of the 256 bytes."
        expect(not missing, rule, missing=missing[:5])
        self.require(self.added_tokens)

    def _make(self):
        return _make_constants(tuple(self.vocabulary), tuple(self.merges), tuple(self.added_tokens))

    def _tokenize(self, texts):
        texts = checked_utf8(texts)
        if self.normalization:
            texts = import_tensorflow_text().normalize_utf8(texts, self.normalization)
        return self._encode(
            split_around(texts, self.added_tokens, lambda parts: split_gpt2(parts, self.add_prefix_space))
        )

    def _tokenize_with_offsets(self, texts):
        ids, normalized = self._tokenize(texts), texts
        if self.normalization:
            text = import_tensorflow_text()
            normalized, sources = text.normalize_utf8_with_offsets_map(texts, self.normalization)
        pieces = tf.gather(self.piece_table(), ids.values)
        lengths = tf.strings.length(pieces)
        spaces = lengths - tf.strings.length(tf.strings.regex_replace(pieces, "^ +", ""))
        ends, begins = tf.cumsum(lengths), tf.cumsum(tf.strings.length(normalized), exclusive=True)
        if self.add_prefix_space:
            ends -= self._spaces_before(normalized, ends)
        ends -= tf.gather(begins, ids.value_rowids())
        starts, ends = (ids.with_values(tf.cast(byte, tf.int64)) for byte in (ends - lengths + spaces, ends))
        if self.normalization:
            # The operation fails on rows without any offsets.
            more = tf.zeros([ids.nrows(), 1], tf.int64)
            starts, ends = (
                text.find_source_offsets(sources, tf.concat([byte, more], 1))[:, :-1] for byte in (starts, ends)
            )
        return ids, *characters_of_bytes(utf8_widths(texts), starts, ends)

    def _spaces_before(self, texts, ends):
        """Returns how many spaces were put into texts [batch] before the ends of tokens, in bytes of all texts."""

        def whole(parts):
            return tf.RaggedTensor.from_tensor(parts[:, None])

        # Lengths of the texts between added tokens, before and after a space is put in front of them.
        real = tf.strings.length(split_around(texts, self.added_tokens, whole).values)
        read = split_around(texts, self.added_tokens, lambda parts: whole(put_space_before(parts)))
        read = tf.strings.length(read.values)
        return tf.gather(tf.cumsum(read - real), tf.searchsorted(tf.cumsum(read), ends))

    def word_pieces(self, words: Any) -> Any:
        # A word is tokenized as it would be in the middle of a text.
        return self._tokenize(tf.where(tf.strings.regex_full_match(words, "(?s) .*"), words, " " + words))

    def trimmed(self, ids: set[int]) -> Self:
        # All merges that make a token of a text within the token, in the order in which they were applied to the text.
        ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        kept = {*byte_characters(), *self.added_tokens}
        for token in (token for index, token in enumerate(self.vocabulary) if index in ids):
            kept.add(token)
            parts = list(token)
            while len(parts) > 1:
                rank, place = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(itertools.pairwise(parts)))
                if rank == len(ranks):
                    break
                parts[place : place + 2] = ["".join(parts[place : place + 2])]
                kept.add(parts[place])
        tokens = [token for token in self.vocabulary if token in kept]
        merges = [(left, right) for left, right in self.merges if {left, right, left + right} <= kept]
        return type(self)(tokens, merges, **self.get_config())

    def token_bytes(self) -> list:
        return _bytes_of_tokens(self.vocabulary, self.added_tokens)


@functools.lru_cache
def _byte_of_character():
    return {character: byte for byte, character in enumerate(byte_characters())}


def _bytes_of_tokens(vocabulary, added_tokens):
    """Returns the bytes of tokens. The characters of added tokens do not stand for bytes."""
    added = set(added_tokens)
    return [token.encode("utf-8") if token in added else _bytes_of(token) for token in vocabulary]


def _bytes_of(token):
    """Returns the bytes of a token. Some special tokens contain characters that do not stand for bytes."""
    table = _byte_of_character()
    if all(character in table for character in token):
        return bytes(table[character] for character in token)
    return token.encode("utf-8")


@constants
def _make_constants(vocabulary, merges, added_tokens):
    """Returns the table of the words that are tokens, and the function that merges the others.

    Making them from a large vocabulary takes long, so they are cached.
    """
    ids = {token: index for index, token in enumerate(vocabulary)}
    pairs = make_pairs(merges, ids)
    byte_ids = tf.constant([ids[character] for character in byte_characters()], tf.int64)

    def merge(words):
        symbols = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)
        count = tf.size(words, tf.int64)
        rows = tf.repeat(tf.range(count), tf.strings.length(words))
        return merge_pairs(pairs, tf.gather(byte_ids, symbols), rows, count)

    # Added tokens are matched in texts although no merges produce them. They come first, because the bytes of
    # another token may be the same, as with two spaces.
    added = set(added_tokens)
    order = [ids[token] for token in added_tokens]
    order += [index for index, token in enumerate(vocabulary) if token not in added]
    tokens = tf.gather(tf.constant(_bytes_of_tokens(vocabulary, added_tokens)), order)
    always = np.arange(len(order)) < len(added_tokens)
    whole = make_whole(tokens, np.array(order), merge, always)
    return whole, merge
