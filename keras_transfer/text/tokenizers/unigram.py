"""The unigram tokenizer of SentencePiece, for ALBERT, XLNet, XLM-R, CamemBERT, DeBERTa v2 and v3, T5 and mT5."""

import dataclasses
import functools
import logging
import os
import pathlib
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.core.expect import expect, expects
from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.normalizer import checked_utf8
from keras_transfer.text.strings.scripts import script_of, scripts_of
from keras_transfer.text.tokenizers.graphemes import of_characters
from keras_transfer.text.tokenizers.sentencepiece_model import (
    BYTE_PIECES,
    SPACE,
    UNIGRAM,
    PieceType,
    SentencePieceModel,
    normalized,
)
from keras_transfer.text.tokenizers.tokenizer import Tokenizer
from keras_transfer.text.tokenizers.unigram_words import (
    MODEL_STEP,
    SPACE_STEPS,
    STEPS,
    normalize_spaces,
    split_spaces,
    split_words,
)

log = logging.getLogger("keras_transfer")

_BYTE_AS_TEXT = "\U00100000{}\U00100001"  # stands for a text that spells a byte piece, such as "<0x41>"


@keras.saving.register_keras_serializable(package="keras_transfer")
class UnigramTokenizer(Tokenizer):
    """Splits texts into the most probable pieces of a SentencePiece unigram model.

    Texts are split at white space, and each word into the pieces whose scores have the largest sum. The ids are those
    of Hugging Face `tokenizers` with `graphemes=True`, except for splits with the same sum, such as the same pieces in
    another order: in long runs of one character, a short piece can come last where Hugging Face and SentencePiece have
    it first (`. ... ... .` instead of `. . ... ...`).

    Text never becomes a control symbol of the model, even if it is spelled like one. If the model has pieces for the
    256 bytes (`byte_fallback`, as in mT5), a character that it lacks becomes its bytes in UTF-8.

    Args:
        model: Bytes, the contents of a `.model` file of SentencePiece, or its path. If `None`, call `load_assets`
            before the tokenizer is used. Defaults to `None`.
        vocabulary: List of strings, the tokens in the order of their ids, if they differ from the model's: XLM-R and
            CamemBERT have other special tokens in front of the pieces. It must contain the pieces. Defaults to the
            model's pieces.
        normalization: List of strings, the steps that are applied to texts, in order, before the model's own
            normalization: `"quotes"` (two quotes become one double quote), `"NFC"`, `"NFD"`, `"NFKC"`, `"NFKD"`,
            `"strip_accents"`, `"lowercase"`. With `keep_spaces=True` also `"collapse_spaces"`,
            `"collapse_white_space"`, `"strip_left"` and `"strip_right"`, and `"model"` where the model's own
            normalization comes before some of these. Defaults to `()`, no steps.
        unk_token: String. Token of characters that no piece contains. Defaults to `None`, the model's.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.
        keep_spaces: Boolean. Whether each space that the normalization leaves begins a word, so that of two spaces, one
            becomes a token of its own (DeBERTa v2 and v3). Otherwise, any white space only separates words. Defaults to
            `False`.
        graphemes: Boolean. Whether the model's own normalization is applied to each grapheme cluster, as in Hugging
            Face `tokenizers`. Otherwise, it is applied to the longest match, as in SentencePiece. They differ in
            characters that are written as several code points, such as a letter with two combining accents. Defaults
            to `False`.

    Raises:
        ValueError: If the file is not a SentencePiece unigram model, or if the vocabulary lacks pieces.
        ImportError: If TensorFlow Text is not installed.

    Example:
    ```python
    questions = keras_transfer.datasets.load_demo_questions().train.texts
    tokenizer = keras_transfer.text.train_vocabulary(questions, "unigram", 200)
    tokenizer.save_assets(".")  # writes spiece.model
    tokenizer = keras_transfer.text.UnigramTokenizer("spiece.model", normalization=["lowercase"])
    ids = tokenizer.tokenize(["What is this?"])
    tokenizer.detokenize(ids)  # ["what is this?"]
    ```

    Source: Kudo 2018, "Subword Regularization"; https://github.com/google/sentencepiece.
    """

    model_file = "spiece.model"
    vocabulary_file = "pieces.txt"
    outer_space = "^ "

    @expects()
    def __init__(
        self,
        model: bytes | str | os.PathLike | None = None,
        vocabulary: Sequence[str] | None = None,
        *,
        normalization: Sequence[str] = (),
        unk_token: str | None = None,
        mask_token: str | None = None,
        eos_token: str | None = None,
        keep_spaces: bool = False,
        graphemes: bool = False,
    ):
        known = [*STEPS, MODEL_STEP]
        unknown = [step for step in normalization if step not in known]
        rule = f"Invalid value for argument `normalization`. Expected a list of {sorted(known)}."
        expect(not unknown, rule, unknown=unknown)
        expect(
            MODEL_STEP not in normalization
            or {*normalization[normalization.index(MODEL_STEP) :]} <= {*SPACE_STEPS, MODEL_STEP},
            f"Only {sorted(SPACE_STEPS)} can follow {MODEL_STEP!r} in `normalization`.",
            normalization=normalization,
        )
        if not keep_spaces and (unknown := [step for step in normalization if step in SPACE_STEPS]):
            raise ValueError(f"`normalization` has steps that require `keep_spaces=True`. Received: {unknown}")
        self.normalization = list(normalization)
        self.keep_spaces = bool(keep_spaces)
        self.graphemes = bool(graphemes)
        self._model: Any = None
        if vocabulary is not None:
            expect(model is not None, "A `vocabulary` requires a `model`.", model=None)
        super().__init__(None, unk_token, mask_token, eos_token)
        if model is not None:
            self._set_model(pathlib.Path(model).read_bytes() if isinstance(model, str | os.PathLike) else model)
            pieces = self._model.pieces  # type: ignore[attr-defined]  # `_set_model` has set it
            self._set_vocabulary([piece for piece, _, _ in pieces] if vocabulary is None else vocabulary)

    def _set_model(self, serialized):
        self._serialized = serialized
        self._model = SentencePieceModel.from_bytes(serialized)
        if self._model.model_type != UNIGRAM or not self._model.add_dummy_prefix:
            raise ValueError(
                "The SentencePiece model must be a unigram model (model_type 1) with add_dummy_prefix=True. For BPE "
                "models, see `SentencePieceBPETokenizer.from_model`. Received: "
                f"model_type={self._model.model_type}, add_dummy_prefix={self._model.add_dummy_prefix}"
            )
        _check_pieces(self._model)
        if not self._model.remove_extra_whitespaces:
            log.warning(
                "The SentencePiece model keeps consecutive spaces (remove_extra_whitespaces=False), which "
                "`UnigramTokenizer` treats as one, as Transformers does."
            )
        self._splitter = None

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(list(tokens))
        unknown = [piece for piece, _, type in self._model.pieces if type == PieceType.UNKNOWN]
        self.unk_token = self.unk_token or unknown[0]
        missing = sorted(self._normal_pieces() - self._ids.keys())
        expect(not missing, "The vocabulary must contain all pieces of the model.", missing=missing[:3])

    @property
    def serialized_model(self) -> bytes:
        """Bytes, the contents of a `.model` file of SentencePiece."""
        self._check_loaded()
        return self._serialized

    @property
    def parsed_model(self) -> SentencePieceModel:
        """`SentencePieceModel`, the pieces and the normalization of the model."""
        self._check_loaded()
        return self._model

    @property
    def special_tokens(self) -> list[str]:  # type: ignore[override]
        """List of strings, the tokens that text never becomes: control symbols, and tokens that the model lacks."""
        normal = self._normal_pieces()
        return [token for token in self.vocabulary if token not in normal]

    def _normal_pieces(self):
        kinds = (PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.BYTE)
        pieces = {piece for piece, _, type in self._model.pieces if type in kinds}
        return {piece for piece in pieces if not piece.startswith(_BYTE_AS_TEXT[0])}

    def _tokenize(self, texts):
        self._check_loaded()
        if self._splitter is None:
            self.require([self.unk_token])
            known = {**self._ids, **{spelled_byte(piece): self._ids[piece] for piece in self._byte_pieces()}}
            ids = [
                self.unk_id if type == PieceType.UNKNOWN else known.get(piece, self.unk_id)
                for piece, _, type in self._model.pieces
            ]
            pieces = [piece for piece, _, type in self._model.pieces]
            space = pieces.index(SPACE) if SPACE in self._normal_pieces() else ids.index(self.unk_id)
            self._splitter = np.array(ids, "int32"), space
        ids, space = self._splitter
        splitter = _get_splitter(self._serialized, self.graphemes)
        texts = checked_utf8(texts)
        charsmap = self._model.charsmap
        for step in self.normalization if MODEL_STEP in self.normalization else [*self.normalization, MODEL_STEP]:
            if step != MODEL_STEP:
                texts = STEPS[step](texts)
            elif self.keep_spaces:
                texts = normalize_spaces(texts, charsmap, self.graphemes)
        words = split_spaces(texts) if self.keep_spaces else split_words(texts, charsmap, self.graphemes)
        distinct, index = tf.unique(words.values)
        if self._model.pieces[-1][0].startswith(_BYTE_AS_TEXT[0]):
            distinct = tf.strings.regex_replace(distinct, "<0x([0-9A-F]{2})>", _BYTE_AS_TEXT.format(r"\1"))
        pieces = splitter.tokenize(distinct)
        values, count = (
            tf.gather(ids, tf.concat([pieces.values, [space]], 0)),
            tf.size(pieces.values, pieces.row_splits.dtype),
        )
        is_space = distinct == SPACE  # TensorFlow Text would put another one in front of it.
        first = tf.where(is_space, count, pieces.row_splits[:-1])
        last = tf.where(is_space, count + 1, pieces.row_splits[1:])
        places = tf.ragged.range(tf.gather(first, index), tf.gather(last, index), row_splits_dtype=tf.int64)
        values = tf.gather(values, places.values)
        return tf.RaggedTensor.from_row_splits(values, tf.gather(places.row_splits, words.row_splits), validate=False)

    def trimmed(self, ids: set[int]) -> Self:
        scores = {piece: score for piece, score, kind in self._model.pieces if kind == PieceType.NORMAL}
        kept = {token for index, token in enumerate(self.vocabulary) if index in ids}
        scripts = scripts_of(kept)

        def spells(piece):
            """Whether the tokenizer needs a piece to spell words: the space, or a character of a kept script."""
            characters = piece.removeprefix(SPACE)
            return not characters or (len(characters) == 1 and script_of(characters) in scripts)

        kept |= {piece for piece in scores if spells(piece)}
        # The lowest score decides on unknown pieces.
        kept.add(min(scores, key=lambda piece: (scores[piece], piece)))
        dropped = scores.keys() - kept
        pieces = [entry for entry in self._model.pieces if entry[0] not in dropped]
        model = dataclasses.replace(self._model, pieces=pieces).to_bytes()
        vocabulary = [token for token in self.vocabulary if token not in dropped]
        return type(self)(model, vocabulary, **self.get_config())

    def token_bytes(self) -> list:
        """Returns what each token adds to a text, with a space in front of a word.

        As in SentencePiece, control symbols such as `</s>` add nothing.

        Returns:
            A list of bytes.
        """
        bytes_ = {piece: bytes([int(piece[3:5], 16)]) for piece in self._byte_pieces()}
        bytes_ |= {piece: b"" for piece, _, type in self._model.pieces if type == PieceType.CONTROL}
        return [bytes_.get(token, token.replace(SPACE, " ").encode("utf-8")) for token in self.vocabulary]

    def _byte_pieces(self):
        return [piece for piece, _, type in self._model.pieces if type == PieceType.BYTE]

    def save_assets(self, folder: str | os.PathLike) -> None:
        super().save_assets(folder)
        (pathlib.Path(folder) / self.model_file).write_bytes(self._serialized)

    def load_assets(self, folder: str | os.PathLike) -> None:
        self._set_model((pathlib.Path(folder) / self.model_file).read_bytes())
        super().load_assets(folder)


def spelled_byte(piece):
    """Returns the piece for a text that spells a byte piece."""
    return _BYTE_AS_TEXT.format(piece[3:5])


def _check_pieces(model):
    """Raises a `ValueError` if a model has pieces or a normalization that TensorFlow Text refuses or ignores."""
    for index, (piece, _, type) in enumerate(model.pieces):
        if not piece or type == PieceType.UNUSED:
            raise ValueError(
                "The pieces of a unigram model must not be empty or unused. "
                f"Received: {piece!r} of type {type.name} at index {index}"
            )
    of_bytes = [piece for piece, _, type in model.pieces if type == PieceType.BYTE]
    rule = "A unigram model must have a piece for each byte, from <0x00> to <0xFF>, or none."
    if of_bytes:
        expect(sorted(of_bytes) == BYTE_PIECES, rule, of_bytes=len(of_bytes))
    unknown = [piece for piece, _, type in model.pieces if type == PieceType.UNKNOWN]
    expect(len(unknown) == 1, "A unigram model must have one unknown piece.", unknown=unknown)
    size = int.from_bytes(model.charsmap[:4], "little")
    if model.charsmap and (size < 4 or size % 4 or size > len(model.charsmap) - 4):
        raise ValueError(
            "The normalization of a SentencePiece model must begin with the size of its trie. "
            f"Received: {len(model.charsmap)} bytes, and a trie of {size} bytes"
        )
    symbols = [piece for piece, _, type in model.pieces if type == PieceType.USER_DEFINED]
    results = ["".join(normalized(model.charsmap, part) for part in piece).replace(" ", SPACE) for piece in symbols]
    changed = [piece for piece, result in zip(symbols, results) if piece.replace(" ", SPACE) != result]
    if changed:
        raise ValueError(
            "The normalization of a SentencePiece model must not change its user-defined symbols, because texts are "
            f"normalized first. Train the model with normalized symbols. Received: {changed[:3]}"
        )
    kept = [character for character in "\t\n\x0b\x0c\r" if normalized(model.charsmap, character) not in ("", " ")]
    rule = f"A unigram model with bytes must have the piece {SPACE!r} and normalize white space."
    expect(not (of_bytes and (kept or SPACE not in [piece for piece, _, _ in model.pieces])), rule, kept=kept)


def _get_splitter(serialized, graphemes):
    """Returns a tokenizer of TensorFlow Text, which splits words into the pieces of a model."""
    if tf.executing_eagerly() or not _has_bytes(serialized):
        return _make_splitter(serialized, graphemes)
    return _of_bytes(serialized, graphemes)  # It belongs to the graph that is being traced, with which it is saved.


@constants
def _make_splitter(serialized, graphemes):
    if _has_bytes(serialized):
        return _of_bytes(serialized, graphemes)
    return import_tensorflow_text().FastSentencepieceTokenizer(_for_words(serialized, graphemes))


def _of_bytes(serialized, graphemes):
    # The fast one does not know bytes.
    return import_tensorflow_text().SentencepieceTokenizer(_for_words(serialized, graphemes))


@functools.lru_cache(maxsize=4)
def _has_bytes(serialized):
    return any(type == PieceType.BYTE for _, _, type in SentencePieceModel.from_bytes(serialized).pieces)


def _for_words(serialized, graphemes):
    """Returns a model for words that are already normalized where that depends on grapheme clusters."""
    charsmap = SentencePieceModel.from_bytes(serialized).charsmap
    return serialized.replace(charsmap, of_characters(charsmap)) if graphemes and charsmap else serialized
