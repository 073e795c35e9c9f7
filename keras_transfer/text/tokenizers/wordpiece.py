"""The WordPiece tokenizer of BERT."""

import logging
import pathlib
from collections.abc import Sequence
from typing import Self

import keras

from keras_transfer.core.expect import FLAG, expects
from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.characters import characters_of_bytes, skip_characters
from keras_transfer.text.strings.normalizer import (
    MAX_WORD_LENGTH,
    UNKNOWN,
    is_reachable,
    normalize,
    normalize_characters,
    replace_newer,
)
from keras_transfer.text.strings.scripts import script_of, scripts_of
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

log = logging.getLogger("keras_transfer")

_MAX_TOKEN_BYTES = 256  # limit of TensorFlow Text
_REMOVED_CHARACTER = "\U0010fffd"  # Normalization removes it, so no text contains it.

# The decoder of Hugging Face `tokenizers` removes the space in front of these.
_NO_SPACE = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordPieceTokenizer(Tokenizer):
    """Splits texts into words as BERT does, and words into the longest pieces in the vocabulary.

    The ids are those of Hugging Face `tokenizers`.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, or the path of a `vocab.txt` with one token
            per line. White space at the ends of its lines is removed, and empty tokens at the end are dropped. If a
            line occurs more than once in a file, the last one counts, as in Transformers, and a warning says so. If
            `None`, call `load_assets` before the tokenizer is used. Defaults to `None`.
        lowercase: Boolean. Whether texts are lowercased, as for uncased vocabularies. Defaults to `True`.
        strip_accents: Boolean. Whether accents are removed. Defaults to the value of `lowercase`, as in BERT.
        unk_token: String. Token of words that cannot be split into pieces. Defaults to `"[UNK]"`.
        mask_token: String. Token that masked language models predict. Defaults to `"[MASK]"`.
        clean_up: Boolean. Whether `detokenize` leaves out the space in front of punctuation. Defaults to `True`.

    Raises:
        ValueError: If a list of tokens contains duplicates, line breaks or anything other than strings.
        ImportError: If TensorFlow Text is not installed.

    Example:
    ```python
    tokenizer = keras_transfer.text.WordPieceTokenizer(["[UNK]", "the", "film", "##s"])
    tokenizer.tokenize(["The films"])  # [[1, 2, 3]]
    ```

    Source: Devlin et al. 2019, "BERT", section 3; https://github.com/google-research/bert.
    """

    outer_space = "^ "
    has_offsets = True

    @expects(lowercase=FLAG, strip_accents=FLAG)
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        unk_token: str = "[UNK]",
        mask_token: str = "[MASK]",
        clean_up: bool = True,
    ):
        self._splitter = None
        self.clean_up = bool(clean_up)
        super().__init__(vocabulary, unk_token, mask_token)
        self.lowercase = bool(lowercase)
        self.strip_accents = strip_accents

    def _set_vocabulary(self, tokens):
        while tokens and tokens[-1] == "":
            tokens.pop()
        super()._set_vocabulary(tokens)
        for index, token in enumerate(tokens):
            if len(token) > _MAX_TOKEN_BYTES // 4 and is_reachable(token):
                size = len(token.removeprefix("##").encode("utf-8"))
                if size > _MAX_TOKEN_BYTES:
                    raise ValueError(
                        f"A token of a WordPiece vocabulary must not be longer than {_MAX_TOKEN_BYTES} bytes. "
                        f"Received: {size} bytes in the token with id {index}, {token[:20]!r}..."
                    )
        self._splitter = None

    def _read_vocabulary(self, path):
        return read_lines(pathlib.Path(path))

    def _tokenize(self, texts):
        return self._make().tokenize(normalize(texts, *self._normalization()))

    def _make(self):
        if self._splitter is None:
            self.require([self.unk_token])
            self._splitter = _make_splitter(tuple(self.vocabulary), self.unk_token)
        return self._splitter

    def _normalization(self):
        return self.lowercase, self.lowercase if self.strip_accents is None else self.strip_accents

    def _tokenize_with_offsets(self, texts):
        normalized, widths, accents = normalize_characters(texts, *self._normalization())
        words, begins, _ = import_tensorflow_text().regex_split_with_offsets(normalized, r"[\s\pZ]+")
        is_long = tf.strings.length(words.values, unit="UTF8_CHAR") > MAX_WORD_LENGTH
        pieces, starts, ends = self._make().tokenize_with_offsets(tf.where(is_long, UNKNOWN, words.values))
        word = pieces.value_rowids()
        whole = tf.cast(tf.gather(tf.strings.length(words.values), word), tf.int64)
        ends = tf.where(tf.gather(is_long, word), whole, tf.cast(ends.values, tf.int64))
        starts, begins = tf.cast(starts.values, tf.int64), tf.cast(tf.gather(begins.values, word), tf.int64)
        splits = tf.gather(pieces.row_splits, words.row_splits)
        ids = tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
        starts, ends = characters_of_bytes(widths, ids.with_values(begins + starts), ids.with_values(begins + ends))
        return ids, starts, skip_characters(accents, ids.with_values(ends))

    def trimmed(self, ids: set[int]) -> Self:
        kept = {self.unk_token, *(token for index, token in enumerate(self.vocabulary) if index in ids)}
        scripts = scripts_of(kept)
        for token in self.vocabulary:
            character = token.removeprefix("##")
            if len(character) == 1 and script_of(character) in scripts:
                kept.add(token)
        return type(self)([token for token in self.vocabulary if token in kept], **self.get_config())

    def token_bytes(self) -> list:
        """Returns what each token adds to a text: a space and a word, or the rest of a word.

        As in BERT, there is no space in front of a full stop, a comma, a question mark and an exclamation mark, unless
        `clean_up=False`.

        Returns:
            A list of bytes.
        """
        joined = _NO_SPACE if self.clean_up else ()
        tokens = (
            token[2:] if token.startswith("##") else f"{'' if token.startswith(joined) else ' '}{token}"
            for token in self.vocabulary
        )
        return [token.encode("utf-8") for token in tokens]

    def word_starts(self) -> list:
        """Returns for each id whether the token begins a word: whether it lacks `##`.

        Returns:
            A list of booleans.
        """
        return [not token.startswith("##") for token in self.vocabulary]


@constants
def _make_splitter(vocabulary, unk_token):
    """Returns the operation that splits words. Making it from a large vocabulary takes long, so it is cached."""
    # The operation would match tokens that no normalized word equals, which Hugging Face's tokenizers never match.
    tokens = [
        replace_newer(token) if is_reachable(token) else f"[unreachable{index}]"
        for index, token in enumerate(vocabulary)
    ]
    tokens.append(_REMOVED_CHARACTER)  # The operation requires a token that is a word.
    return import_tensorflow_text().FastWordpieceTokenizer(
        tokens,
        max_bytes_per_word=4 * MAX_WORD_LENGTH,  # longer words have been replaced before
        token_out_type=tf.int32,
        unknown_token=unk_token,
    )


def trimmed_token(token):
    """Returns a token without white space at its end. A token of white space alone, which no text has, stays."""
    return token.rstrip() or token


def read_lines(path):
    """Returns the lines of a vocabulary without white space at their ends, as in Transformers.

    A line that occurs again is replaced by a name that no text can contain.
    """
    lines = [line.removesuffix("\r") for line in path.read_bytes().decode("utf-8").rstrip("\r\n").split("\n")]
    lines = [trimmed_token(line) for line in lines]
    last = {token: index for index, token in enumerate(lines)}
    duplicates = {index: token for index, token in enumerate(lines) if last[token] != index}
    if duplicates:
        log.warning(
            "%s contains %d lines that occur again below. The last one of each counts, as in Transformers. The first "
            "of these lines: %s",
            path,
            len(duplicates),
            {index + 1: token for index, token in list(duplicates.items())[:3]},
        )
    return [f"[duplicate{index}]" if index in duplicates else token for index, token in enumerate(lines)]
