"""The base class of tokenizers, which turn raw text into ragged token ids in the TensorFlow graph."""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.preprocessor import as_text_tensors
from keras_transfer.text.special_tokens import is_language_code, sentinels_in
from keras_transfer.text.strings.pieces import join_pieces


class Tokenizer(SavedByArguments):
    """Splits raw text into tokens and returns their ids; the base class of all tokenizers.

    A tokenizer is a plain object, so that neither Keras nor TensorFlow tracks its vocabulary. Its config holds the
    settings; `save_assets` and `load_assets` write and read the vocabulary. Text never becomes a special token. A
    `Packing` adds the special tokens.

    A subclass implements `_tokenize(texts)`, which returns the ids of a string tensor [batch] as an int32 ragged tensor
    [batch, None]. It can also implement `token_bytes` to convert ids to texts and, if it sets `has_offsets`,
    `_tokenize_with_offsets(texts)`. A row of `FORMATS` in `text.tokenizer_files.formats` writes it into a folder that
    Transformers can read.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, or the path of a file with one token per
            line. If `None`, call `load_assets` before the tokenizer is used. Defaults to `None`.
        unk_token: String. Token for text that the vocabulary cannot express. `None` if there is no such text.
            Defaults to `None`.
        mask_token: String. Token that masked language models predict. The vocabulary may lack it. Defaults to `None`.
        eos_token: String. Token that ends a generated text. The vocabulary may lack it. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary contains duplicates, line breaks or anything other than strings.
    """

    _tokenize: Callable
    _tokenize_with_offsets: Callable
    assets = ("vocabulary", "merges", "model")
    vocabulary_file = "vocab.txt"
    by_lines = True  # Whether the file has one token per line.
    first_id = 0
    outer_space = ""  # Regular expression of the extra space in decoded texts.
    added_tokens: Sequence[str] = ()  # Tokens that are matched before texts are split.
    # Further tokens that text never becomes, besides the tokens of the arguments and of the packing.
    special_tokens: Sequence[str] = ()
    has_own_targets = False  # Whether targets have another tokenizer, and a code in a source names their language.
    has_offsets = False  # Whether `tokenize_with_offsets` knows the characters of each token.

    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        unk_token: str | None = None,
        mask_token: str | None = None,
        eos_token: str | None = None,
    ):
        self.unk_token = unk_token
        self.mask_token = mask_token
        self.eos_token = eos_token
        self._vocabulary = None
        self._ids = {}
        if isinstance(vocabulary, str | os.PathLike):
            vocabulary = self._read_vocabulary(vocabulary)
        if vocabulary is not None:
            self._set_vocabulary(list(vocabulary))

    def _set_vocabulary(self, tokens):
        wrong = [token for token in tokens if not isinstance(token, str) or (self.by_lines and "\n" in token)]
        expect(not wrong, "A vocabulary must be a list of strings without line breaks.", wrong=wrong[:3])
        try:
            "".join(tokens).encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"The tokens of a vocabulary must be valid Unicode. Received: {error}") from error
        ids = {token: index for index, token in enumerate(tokens, self.first_id)}
        duplicates = [token for index, token in enumerate(tokens, self.first_id) if ids[token] != index]
        expect(not duplicates, "A vocabulary must not contain duplicates.", duplicates=duplicates[:3])
        self._vocabulary, self._ids, self._pieces = tokens, ids, None

    @property
    def is_loaded(self) -> bool:
        """Boolean. Whether the tokenizer has its vocabulary."""
        return self._vocabulary is not None

    @property
    def vocabulary(self) -> list[str]:
        """List of strings, the tokens in the order of their ids."""
        self._check_loaded()
        return self._vocabulary

    @property
    def vocabulary_size(self) -> int:
        """Integer. Number of ids."""
        return self.first_id + len(self.vocabulary)

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token.

        Args:
            token: String.

        Returns:
            An integer, or `None` if the vocabulary lacks the token.
        """
        self._check_loaded()
        return self._ids.get(token)

    @property
    def unk_id(self) -> int | None:
        """Integer. The id of `unk_token`, or `None`."""
        return self.token_to_id(self.unk_token)

    @property
    def mask_id(self) -> int | None:
        """Integer. The id of `mask_token`, or `None`."""
        return self.token_to_id(self.mask_token)

    @property
    def eos_id(self) -> int | None:
        """Integer. The id of `eos_token`, or `None`."""
        return self.token_to_id(self.eos_token)

    @property
    def sentinel_ids(self) -> list[int]:
        """List of integers. The ids of the sentinels `<extra_id_0>`, `<extra_id_1>`, ..., in this order."""
        return [self._ids[token] for token in sentinels_in(self._ids)]

    @property
    def language_codes(self) -> list[str]:
        """List of strings. The special tokens that name languages, such as `de_DE` and `>>deu<<`."""
        return [token for token in self.special_tokens if is_language_code(token)]

    def _check_loaded(self):
        rule = (
            "The tokenizer has no vocabulary. Pass `vocabulary`, or call `load_assets(folder)` with what "
            "`save_assets` wrote. A config has no vocabulary, so `from_config` and `clone_model` lose it: copy a "
            "preprocessor with `copy.deepcopy`, or save and load it."
        )
        expect(self.is_loaded, rule, vocabulary=None)

    def require(self, tokens: Sequence[str]) -> None:
        """Raises a `ValueError` if the vocabulary lacks a special token.

        Args:
            tokens: List of strings. The special tokens that are needed.
        """
        missing = [token for token in dict.fromkeys(tokens) if self.token_to_id(token) is None]
        if missing:
            raise ValueError(
                f"The vocabulary must contain the special tokens {', '.join(missing)}. "
                f"Received: {len(self.vocabulary)} tokens, starting with {self.vocabulary[:5]}"
            )

    def tokenize(self, texts: Any) -> Any:
        """Returns the ids of texts without special tokens, neither truncated nor padded.

        Args:
            texts: A string, or a list, array, table column or tensor of strings.

        Returns:
            An int32 `tf.RaggedTensor` [batch, None]. For a single string, an int32 tensor.

        Raises:
            ValueError: If `texts` are pairs or anything other than text.

        Example:
        ```python
        tokenizer = keras_transfer.text.WordPieceTokenizer(["[UNK]", "the", "film", "##s"])
        tokenizer.tokenize(["The films", "films"])  # [[1, 2, 3], [2, 3]]
        ```
        """
        rule = "`tokenize` does not take pairs. Pass several texts as a list."
        expect(not isinstance(texts, tuple), rule, texts=texts)
        with tf.device("CPU:0"):
            texts = as_text_tensors(texts)
            ids = self._tokenize(tf.reshape(texts, [-1]))
            return ids.values if texts.shape.rank == 0 else ids

    def tokenize_with_offsets(self, texts: Any) -> tuple:
        """Returns the ids of texts like `tokenize`, and the characters of the texts that each token stands for.

        Characters are counted in the original texts, before any normalization. An accent that is removed belongs to
        the token of its letter, and the space before a token does not belong to it. If several tokens stand for parts
        of a character, each of them covers the whole character.

        Args:
            texts: A list, array, table column or tensor of strings.

        Returns:
            A tuple of int32 `tf.RaggedTensor`s [batch, None]: the ids, the position of the first character of each
            token, and the position after its last character.

        Raises:
            ValueError: If the tokenizer does not know them (`has_offsets` is `False`).

        Example:
        ```python
        tokenizer = keras_transfer.text.WordPieceTokenizer(["[UNK]", "the", "film", "##s"])
        ids, starts, ends = tokenizer.tokenize_with_offsets(["The  films"])
        starts, ends  # [[0, 5, 9]], [[3, 9, 10]]
        ```
        """
        check_offsets(self)
        with tf.device("CPU:0"):
            texts = tf.reshape(as_text_tensors(texts), [-1])
            ids, starts, ends = self._tokenize_with_offsets(texts)
            return ids, ids.with_values(tf.cast(starts, tf.int32)), ids.with_values(tf.cast(ends, tf.int32))

    def word_pieces(self, words: Any) -> Any:
        """Returns the ids of words, at least one for each word.

        A word without any token, such as a control character, becomes the unknown token.

        Args:
            words: String tensor of shape `[words]`.

        Returns:
            A ragged int32 tensor of shape `[words, None]`.
        """
        ids = self._tokenize(words)
        empty = ids.row_lengths() == 0
        unknown = tf.fill([tf.math.count_nonzero(empty)], self.unk_id)
        return tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, tf.cast(empty, tf.int64))], 1)

    def token_bytes(self) -> list:
        """Returns the bytes that each token adds to a text, in the order of the ids.

        The joined bytes of consecutive tokens are UTF-8. A text may begin or end with an extra space, which
        `outer_space` matches.

        Returns:
            A list of bytes.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `token_bytes`.")

    def word_starts(self) -> list:
        """Returns for each id whether the token begins a word: whether it adds a space in front.

        Returns:
            A list of booleans.
        """
        return [piece[:1].isspace() for piece in self.token_bytes()]

    def piece_table(self) -> Any:
        """Returns `token_bytes` as a tensor, which is created only once.

        Returns:
            A string tensor of shape `[tokens]`.
        """
        self._check_loaded()
        if self._pieces is None:
            with tf.init_scope(), tf.device("CPU:0"):
                self._pieces = tf.constant(self.token_bytes())
        return self._pieces

    def detokenize(self, ids: Any) -> Any:
        """Returns the texts of ids, as far as tokenization preserves them.

        Bytes that are not UTF-8, such as a part of a character, become U+FFFD.

        Args:
            ids: Int tensor or ragged tensor [batch, None], or [None] for a single text.

        Returns:
            A string tensor [batch], or a scalar.

        Raises:
            ValueError: If an id is not in the vocabulary. In a graph, a `tf.errors.InvalidArgumentError`.
        """
        pieces = self.piece_table()
        if tf.executing_eagerly():
            _check_ids(ids, len(pieces))
        texts = join_pieces(tf.gather(pieces, ids))
        return tf.strings.regex_replace(texts, self.outer_space, "") if self.outer_space else texts

    def trimmed(self, ids: set[int]) -> Self:
        """Returns this tokenizer with fewer tokens, which has the same order and splits the same way where it can.

        Args:
            ids: Set of integers. The ids of the tokens to keep. The tokenizer also keeps what these are made from, and
                bytes, or single characters of the same scripts.

        Returns:
            A tokenizer of the same class.

        Raises:
            ValueError: If tokenizers of this class cannot be trimmed.
        """
        raise ValueError(
            "Only the vocabulary of a `WordPieceTokenizer`, a `ByteBPETokenizer` and a `UnigramTokenizer` can be "
            f"trimmed. Received: a `{type(self).__name__}`"
        )

    def _read_vocabulary(self, path):
        # A word may contain characters that Python treats as the end of a line.
        return pathlib.Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")

    def save_assets(self, folder: str | os.PathLike) -> None:
        """Writes the vocabulary, and what else the tokenizer needs to split texts, into a folder.

        Args:
            folder: String or path.
        """
        path = pathlib.Path(folder) / self.vocabulary_file
        path.write_text("".join(f"{token}\n" for token in self.vocabulary), "utf-8", newline="\n")

    def load_assets(self, folder: str | os.PathLike) -> None:
        """Reads the vocabulary that `save_assets` wrote.

        Args:
            folder: String or path.
        """
        self._set_vocabulary(self._read_vocabulary(pathlib.Path(folder) / self.vocabulary_file))


def check_offsets(tokenizer):
    """Raises a `ValueError` if a tokenizer does not know the characters of its tokens."""
    rule = (
        "The characters of tokens are known only for a `WordPieceTokenizer` (such as in a `BertPreprocessor`), and "
        "for a `ByteBPETokenizer` (GPT-2, RoBERTa, ModernBERT)."
    )
    expect(getattr(tokenizer, "has_offsets", False), rule, tokenizer=tokenizer)


def _check_ids(ids, count):
    """Raises a `ValueError` if ids are not integers from 0 to `count - 1`. A device may read others as no token."""
    values = np.asarray(getattr(ids, "flat_values", ids))
    wrong = values if values.dtype.kind not in "iu" else values[(values < 0) | (values >= count)]
    if wrong.size:
        raise ValueError(
            f"Ids must be integers from 0 to {count - 1}, the positions of tokens in the vocabulary. "
            f"Received: {wrong.ravel()[0].item()!r}"
        )
