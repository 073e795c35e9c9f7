"""The BPE tokenizer of SentencePiece, used by Llama, Mistral, Gemma and encoders with their vocabularies."""

import json
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.core.expect import expects, one_of
from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.strings.byte_pairs import encode_words, make_pairs, make_whole, merge_pairs
from keras_transfer.text.strings.normalizer import checked_utf8
from keras_transfer.text.strings.splitting import CUT, split_around, split_at
from keras_transfer.text.strings.string_table import make_table
from keras_transfer.text.tokenizers.bpe import BPETokenizer
from keras_transfer.text.tokenizers.sentencepiece_model import BPE, BYTE_PIECES, SPACE, PieceType, SentencePieceModel

_PREFIXES = ("always", "missing", None)
_MERGES_FILE = "merges.json"  # Tokens may contain line breaks.


@keras.saving.register_keras_serializable(package="keras_transfer")
class SentencePieceBPETokenizer(BPETokenizer):
    """Merges the characters of texts by byte-pair encoding, as SentencePiece models of type BPE do.

    The ids are those of Hugging Face `tokenizers`. A space is a character like any other, written as U+2581, and spaces
    are never removed. Text never becomes a special token, even if it is spelled like one.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, a dict from tokens to ids, or the path of a
            `vocab.json`. If `None`, call `load_assets` before the tokenizer is used. Defaults to `None`.
        merges: List of pairs of tokens in the order in which they are merged. Required with `vocabulary`. Defaults to
            `None`.
        prefix: String. Which texts get a space in front: all (`"always"`, as in Llama), those that do not begin with
            one (`"missing"`), or none (`None`, as in Gemma). Defaults to `"always"`.
        byte_fallback: Boolean. Whether a character that the vocabulary lacks becomes the tokens of its bytes,
            `"<0x00>"` to `"<0xFF>"`. Otherwise, a run of such characters becomes one `unk_token`. Defaults to `True`.
        added_tokens: List of strings. Tokens that are matched before texts are split, such as Gemma's runs of line
            breaks. The longest match wins. Defaults to none.
        control_tokens: List of strings. Tokens such as `"</s>"`, which text never becomes and which add nothing to a
            decoded text. Defaults to none.
        unk_token: String. Defaults to `"<unk>"`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary has duplicates, lacks U+2581, a byte, or a token of a merge, or has no merges.

    Example:
    ```python
    tokenizer = keras_transfer.text.SentencePieceBPETokenizer(
        ["<unk>", "\u2581", *"afilm", "\u2581f", "il"], [("\u2581", "f"), ("i", "l")], byte_fallback=False
    )
    ids = tokenizer.tokenize(["a film"])  # [[1, 2, 7, 8, 6]]
    tokenizer.detokenize(ids)  # ["a film"]
    ```

    Source: https://github.com/google/sentencepiece (`bpe_model.cc`).
    """

    @expects(prefix=one_of(*_PREFIXES))
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        merges: Sequence | None = None,
        *,
        prefix: str = "always",
        byte_fallback: bool = True,
        added_tokens: Sequence[str] = (),
        control_tokens: Sequence[str] = (),
        unk_token: str = "<unk>",
        mask_token: str | None = None,
        eos_token: str | None = None,
    ):
        self.prefix = prefix
        self.byte_fallback = bool(byte_fallback)
        self.added_tokens = list(added_tokens)
        self.control_tokens = self.special_tokens = list(control_tokens)
        super().__init__(vocabulary, merges, unk_token, mask_token, eos_token)

    @classmethod
    def from_model(
        cls, model: bytes | str | os.PathLike, mask_token: str | None = None, eos_token: str | None = None
    ) -> Self:
        """Creates the tokenizer from a SentencePiece `.model` file.

        Args:
            model: Bytes, the contents of the file, or its path.
            mask_token: String. Token that masked language models predict. Defaults to `None`.
            eos_token: String. Token that ends a generated text. Defaults to `None`.

        Returns:
            A `SentencePieceBPETokenizer`.

        Raises:
            ValueError: If the model is not of type BPE, or if it normalizes texts.
        """
        parsed = SentencePieceModel.from_bytes(
            pathlib.Path(model).read_bytes() if isinstance(model, str | os.PathLike) else model
        )
        if parsed.model_type != BPE or parsed.charsmap or parsed.remove_extra_whitespaces:
            raise ValueError(
                "The SentencePiece model must be a BPE model (model_type 2) that keeps texts as they are, with "
                "normalization_rule_name='identity' and remove_extra_whitespaces=False. Received: "
                f"model_type={parsed.model_type}, a normalization of {len(parsed.charsmap)} bytes, "
                f"remove_extra_whitespaces={parsed.remove_extra_whitespaces}"
            )
        by_type = {type: [piece for piece, _, other in parsed.pieces if other == type] for type in PieceType}
        return cls(
            [piece for piece, _, _ in parsed.pieces],
            _merges_of_pieces(parsed.pieces),
            prefix="always" if parsed.add_dummy_prefix else None,
            byte_fallback=bool(by_type[PieceType.BYTE]),
            added_tokens=by_type[PieceType.USER_DEFINED],
            control_tokens=by_type[PieceType.CONTROL],
            unk_token=by_type[PieceType.UNKNOWN][0],
            mask_token=mask_token,
            eos_token=eos_token,
        )

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        self.require([SPACE, self.unk_token, *(BYTE_PIECES if self.byte_fallback else ()), *self.added_tokens])

    @property
    def outer_space(self) -> str:  # type: ignore[override]
        """String. Regular expression of the extra space in decoded texts."""
        return "" if self.prefix is None else "^ "

    def _make(self):
        return _make_constants(
            tuple(self.vocabulary), tuple(self.merges), tuple(self.added_tokens), self.byte_fallback, self.unk_id
        )

    def _tokenize(self, texts):
        *_, by_words = self._constants()
        words = split_around(checked_utf8(texts), self.added_tokens, lambda parts: self._split(parts, by_words))
        return self._encode(words)

    def _split(self, texts, by_words):
        """Returns the words of texts, each with the spaces before it, or the whole texts."""
        replace = tf.strings.regex_replace
        texts = replace(texts, " ", SPACE)
        if self.prefix is not None:
            first = "(?s:.)" if self.prefix == "always" else f"[^{SPACE}]"
            texts = replace(texts, f"^{first}", rf"{SPACE}\0", replace_global=False)
        if by_words:
            texts = replace(texts, f"([^{SPACE}])({SPACE})", rb"\1" + CUT + rb"\2")
        return split_at(CUT, texts)

    def word_pieces(self, words: Any) -> Any:
        # A word is tokenized as it would be in the middle of a text.
        if self.prefix is None:
            words = tf.where(tf.strings.regex_full_match(words, "(?s) .*|"), words, " " + words)
        return super().word_pieces(words)

    def token_bytes(self) -> list:
        """Returns what each token adds to a text. As in SentencePiece, control tokens such as `</s>` add nothing.

        Returns:
            A list of bytes.
        """
        of_bytes = {token: bytes([byte]) for byte, token in enumerate(BYTE_PIECES)} if self.byte_fallback else {}
        of_bytes |= dict.fromkeys(self.control_tokens, b"")
        return [of_bytes.get(token, token.replace(SPACE, " ").encode("utf-8")) for token in self.vocabulary]

    def _write_merges(self, folder):
        (folder / _MERGES_FILE).write_text(json.dumps(self.merges, ensure_ascii=False) + "\n", "utf-8")

    def _read_merges(self, folder):
        return json.loads((folder / _MERGES_FILE).read_text("utf-8"))


def _merges_of_pieces(pieces):
    """Returns the merges of a SentencePiece model, as Transformers converts them.

    Any two pieces that form a third one can be merged. The merges are in the order of the scores of the resulting
    pieces, the highest first. Among the splits of a piece, the one with the longest first part comes first.
    """
    kinds = (PieceType.NORMAL, PieceType.USER_DEFINED)
    scores = {piece: score for piece, score, type in pieces if type in kinds}
    merges = [
        (score, piece[:index], piece[index:])
        for piece, score in scores.items()
        for index in range(1, len(piece))
        if piece[:index] in scores and piece[index:] in scores
    ]
    merges.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    return [merge[1:] for merge in merges]


@constants
def _make_constants(vocabulary, merges, added_tokens, byte_fallback, unk_id):
    """Returns the table of the words that are tokens, the function that merges others, and whether words are separate.

    They are, unless a merge crosses the space in front of a word.
    """
    ids = {token: index for index, token in enumerate(vocabulary)}
    by_words = not any(re.search(f"[^{SPACE}]{SPACE}", first + second) for first, second in merges)
    pairs = make_pairs(merges, ids)
    characters = [token for token in vocabulary if len(token) == 1]
    table = make_table(tf.constant(characters), tf.constant([ids[token] for token in characters]))
    byte_ids = tf.constant([ids[token] for token in BYTE_PIECES]) if byte_fallback else None

    def spell(characters):
        """Returns the ids of characters that the vocabulary lacks, a ragged tensor [characters, None]."""
        if byte_ids is None:
            return tf.RaggedTensor.from_tensor(tf.fill([tf.size(characters), 1], unk_id))
        values = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(characters), tf.uint8), tf.int32)
        return tf.RaggedTensor.from_row_lengths(
            tf.gather(byte_ids, values), tf.cast(tf.strings.length(characters), tf.int64), validate=False
        )

    def merge(words):
        split = tf.strings.unicode_split(words, "UTF-8")
        symbols = encode_words(split.values, table, spell)
        values, rows = symbols.values, tf.gather(split.value_rowids(), symbols.value_rowids())
        if not byte_fallback:
            again = (values[1:] == unk_id) & (values[:-1] == unk_id) & (rows[1:] == rows[:-1])
            kept = tf.concat([tf.ones_like(values[:1], tf.bool), ~again], 0)
            values, rows = tf.boolean_mask(values, kept), tf.boolean_mask(rows, kept)
        return merge_pairs(pairs, tf.cast(values, tf.int64), rows, split.nrows())

    # Added tokens are matched in texts although no merges produce them.
    always = [token in added_tokens for token in vocabulary]
    whole = make_whole(tf.constant(vocabulary), np.arange(len(vocabulary)), merge, always)
    return whole, merge, by_words
