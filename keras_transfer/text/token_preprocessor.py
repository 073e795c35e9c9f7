"""The preprocessor of every architecture with token inputs: it combines a tokenizer with a packing."""

import logging
import os
import re
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.core.expect import expect, expects, instance_of
from keras_transfer.core.files import atomic_files
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.packing import Packing
from keras_transfer.text.preprocessor import (
    DEFAULT_LENGTH,
    HasTokenizer,
    WordLevelPreprocessor,
    as_text_tensors,
    preprocess,
)
from keras_transfer.text.tokenizer_files.settings import check_no_tokenizer
from keras_transfer.text.tokenizer_files.tokenizer_folder import read_tokenizer_folder, write_tokenizer_folder
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenPreprocessor(SavedByArguments, HasTokenizer, WordLevelPreprocessor):
    """Turns texts, or pairs of texts, into token ids, a padding mask and, if the model has them, segments.

    It is the preprocessor of every architecture except BERT, since `load` reads the tokenizer and the packing from a
    checkpoint's folder: `<s> a </s></s> b </s>` for RoBERTa, `[CLS] a [SEP] b [SEP]` for ModernBERT, and no special
    tokens for GPT-2, which is padded with its `eos_token`. Text never becomes a special token: "<s>" is three
    characters. If a row is too long, the longer text is truncated first, at its end; padding is always on the right.

    The config has no vocabulary, which `.keras` files contain as an asset. A layer from `from_config` therefore needs
    `load_assets` before it is used.

    Args:
        tokenizer: `Tokenizer`. Splits texts into tokens.
        packing: `Packing`. Describes the special tokens, the padding and the segments.
        sequence_length: Integer. Number of ids that a text is truncated and padded to, special tokens included.
            Defaults to `128`.
        split: String. How tasks that label words split texts into words. `"punctuation"`: at white space, and each
            punctuation character is a word. `"whitespace"`: at white space only. This does not change the ids of texts.
            Defaults to `"punctuation"`.
        name: String. Name of the layer.

    Call arguments:
        - `texts`: A string, or a list, array, table column or tensor of strings; for pairs, a tuple of two.
        - `sequence_length`: Integer. Overrides the constructor's. `"longest"` pads to the longest text of the batch,
          and still truncates to the constructor's length. Defaults to `None`.

    Returns:
        Dict of `token_ids`, `segment_ids` (if the packing has segments) and `padding_mask` (1 is a real token),
        TensorFlow int32 tensors [batch, sequence_length]. For a single string, [sequence_length].

    Raises:
        ValueError: If the vocabulary lacks special tokens, if texts are not strings, or if a length is too small.

    Example:
    ```python
    tokenizer = keras_transfer.text.WordPieceTokenizer(["<pad>", "<s>", "</s>", "[UNK]", "the", "film"])
    packing = keras_transfer.text.Packing(start=["<s>"], between=["</s>", "</s>"], end=["</s>"], pad="<pad>")
    preprocessor = keras_transfer.text.TokenPreprocessor(tokenizer, packing, sequence_length=6)
    preprocessor(["The film"])["token_ids"]  # [[1, 4, 5, 2, 0, 0]]
    ```
    """

    accepts_pairs = True

    @expects(tokenizer=instance_of(Tokenizer, "a `Tokenizer`"), packing=instance_of(Packing, "a `Packing`"))
    def __init__(
        self,
        tokenizer: Tokenizer,
        packing: Packing,
        sequence_length: int = DEFAULT_LENGTH,
        *,
        split: str = "punctuation",
        name: str | None = None,
    ):
        super().__init__(sequence_length, split, name, packing.min_length)
        self.tokenizer = tokenizer
        self.packing = packing
        self.num_start_tokens = len(packing.start)
        self.num_special_tokens = packing.num_special_tokens(1)
        if tokenizer.is_loaded:
            self._check_vocabulary()

    def _check_vocabulary(self):
        unknown = self.tokenizer.unk_token
        self.tokenizer.require([*self.packing.special_tokens, *([] if unknown is None else [unknown])])

    @property
    def pad_id(self) -> int:
        """Integer. The id of the padding token."""
        return self.token_to_id(self.packing.pad)

    @property
    def unk_id(self) -> int | None:
        """Integer. The id of the unknown token, or `None`."""
        return self.tokenizer.unk_id

    @property
    def mask_id(self) -> int | None:
        """Integer. The id of the mask token, or `None`."""
        return self.tokenizer.mask_id

    @property
    def language(self) -> str | None:
        """String. The language code that is added to texts, or `None`."""
        return self.packing.language

    def with_language(self, language: str) -> Self:
        """Returns the preprocessor of texts in another language, with the same tokenizer.

        The language code replaces the packing's (mBART: after the text, mBART-50: in front of
        it), or is put in front of texts if the packing has none (Marian, where it is the language of the translation).

        Args:
            language: String. One of the `language_codes` of the tokenizer, such as `"de_DE"`.

        Returns:
            A `TokenPreprocessor`.

        Raises:
            ValueError: If the tokenizer has no such language.
        """
        codes = self.tokenizer.language_codes
        rule = f"`language` must be one of the language codes of the tokenizer, {codes}."
        expect(language in codes, rule, language=language)
        packing = self.packing.with_language(language)
        return type(self)(self.tokenizer, packing, self.sequence_length, split=self.split)

    def tokenize(self, texts: Any) -> Any:
        """Returns the ids of texts without special tokens, neither truncated nor padded.

        Args:
            texts: String, or list, array, table column or tensor of strings.

        Returns:
            An int32 `tf.RaggedTensor` of shape `[batch, None]`.
        """
        return self.tokenizer.tokenize(texts)

    def encode_ids(self, ids: list[list[int]]) -> dict:
        """Returns the inputs of texts whose ids are known, with the special tokens, and padded to the longest.

        Args:
            ids: List of lists of integers. Ids of each text, as `tokenize` returns them.

        Returns:
            Dict of the model's inputs, as a call returns them.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film"])
        preprocessor.encode_ids([[5], [4, 5]])["token_ids"]  # [[2, 5, 3, 0], [2, 4, 5, 3]]
        ```
        """
        values, lengths = np.concatenate(ids).astype("int32"), [*map(len, ids)]
        with tf.device("CPU:0"):
            return self._pack([tf.RaggedTensor.from_row_lengths(values, lengths)], None)

    @property
    def special_ids(self) -> list[int]:
        """List of integers. The ids of all special tokens and codes of languages, in order."""
        tokens = {*self.packing.special_tokens, self.tokenizer.unk_token, self.tokenizer.mask_token}
        tokens.update(self.tokenizer.language_codes)
        return sorted(id for id in map(self.token_to_id, tokens) if id is not None)

    def encode_masked(self, texts: Any, sequence_length: int | None = None) -> dict:
        """Returns the inputs of texts in which the user has masked words, and the positions of these words.

        The mask token is the only special token that a text may contain.

        Args:
            texts: String, or list, array, table column or tensor of strings, such as "Paris is in [MASK].".
            sequence_length: Integer. Number of ids that a row is truncated and padded to. Defaults to `None`, the
                length of the longest row.

        Returns:
            Dict of the model's inputs and of `mask_positions`, an int32 tensor of shape `[batch, places]`, in order and
            padded with -1.

        Raises:
            ValueError: If the vocabulary lacks the mask token.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"])
        preprocessor.encode_masked(["the [MASK]"], sequence_length=6)["token_ids"]  # [[2, 5, 4, 3, 0, 0]]
        ```
        """
        with tf.device("CPU:0"):
            inputs = self._pack([self.tokenize_masked(texts)], self._length_of(sequence_length))
            return {**inputs, "mask_positions": mask_positions(inputs["token_ids"], self.mask_id)}

    def tokenize_masked(self, texts: Any) -> Any:
        """Returns the ids of texts like `tokenize`, including mask tokens.

        Args:
            texts: String, or list, array, table column or tensor of strings, in which mask tokens may occur.

        Returns:
            An int32 `tf.RaggedTensor` of shape `[batch, None]`.

        Raises:
            ValueError: If the vocabulary lacks the mask token.
        """
        rule = "The vocabulary must contain the mask token."
        expect(
            self.mask_id is not None, rule, mask_token=self.tokenizer.mask_token, vocabulary_size=self.vocabulary_size
        )
        with tf.device("CPU:0"):
            return masked_ids(self.tokenizer, tf.reshape(as_text_tensors(texts), [-1]))

    def to_tokens(self, token_ids: Any) -> Any:
        """Returns the tokens of ids.

        Args:
            token_ids: Integer tensor of any shape.

        Returns:
            A string tensor of the same shape, "" for negative ids.
        """
        with tf.device("CPU:0"):
            index = tf.maximum(token_ids - self.tokenizer.first_id, 0)
            return tf.where(token_ids < 0, "", tf.gather(tf.constant(self.vocabulary), index))

    def detokenize(self, ids: Any) -> Any:
        """Returns the texts of ids, such as `token_ids` of a call, without the special tokens.

        Args:
            ids: Int tensor or ragged tensor [batch, None], or [None] for a single text.

        Returns:
            A string tensor [batch], or a scalar.
        """
        ids = ids if isinstance(ids, tf.RaggedTensor) else tf.convert_to_tensor(ids)
        special = [self.token_to_id(token) for token in self.packing.special_tokens]
        kept = tf.reduce_all(tf.stack([ids != index for index in special]), 0)
        return self.tokenizer.detokenize(tf.ragged.boolean_mask(ids, kept))

    def _features(self):
        return dict.fromkeys(self.packing.features, ())

    def _encode(self, columns, sequence_length):
        return self._pack([self.tokenizer.tokenize(column) for column in columns], sequence_length)

    def _word_pieces(self, words):
        pieces = self.tokenizer.word_pieces(words)
        return pieces.values, pieces.row_lengths()

    def _pack_words(self, pieces, sequence_length):
        return self._pack([pieces], sequence_length)

    def _pack(self, ids, sequence_length):
        return self.packing.pack(ids, self.tokenizer, self.sequence_length, sequence_length)

    def load_assets(self, dir_path: str | os.PathLike) -> None:
        super().load_assets(dir_path)
        self._check_vocabulary()

    def save(self, folder: str | os.PathLike, *, target: Self | None = None, overwrite: bool = False) -> None:
        """Writes the tokenizer and the packing into a folder, which `load` and Transformers can read.

        Args:
            folder: Path. Created if it does not exist. `sequence_length` is written as `model_max_length`.
            target: `TokenPreprocessor` of the targets of an encoder-decoder, with the tokenizer of the targets (Marian)
                or in another language (mBART). Defaults to `None`, for targets that are tokenized as sources are.
            overwrite: Boolean. Whether to replace the tokenizer of the folder, if it has one. Defaults to `False`.

        Raises:
            FileExistsError: If the folder has a tokenizer and `overwrite=False`.
            ValueError: If the folder of a Marian model would have no tokenizer of targets, or if `target` differs in
                more than that.
        """
        check_no_tokenizer(folder, overwrite)
        with atomic_files(folder) as new:
            write_tokenizer_folder(new, self.tokenizer, self.packing, self.sequence_length, self.split, target)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        *,
        target: bool = False,
        sequence_length: int | None = None,
        split: str | None = None,
        tokenizer: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Returns the preprocessor of a folder that `save` or Transformers wrote.

        Args:
            folder: Path of a folder with `tokenizer.json`, or with the older files of the tokenizer (`vocab.json` and
                `merges.txt`) and a `config.json` or `tokenizer_config.json` that says which model it belongs to.
            target: Boolean. Whether texts are the targets of an encoder-decoder, for which a folder may have another
                tokenizer (Marian) or another language (mBART). Defaults to `False`.
            sequence_length: Integer. Defaults to `max_seq_length` of `sentence_bert_config.json`, else to
                `model_max_length` of `tokenizer_config.json`, else to `128`.
            split: String. As in the constructor. Defaults to what `save` wrote, else to `"punctuation"`.
            tokenizer: String. Which files to follow where they disagree: `"file"` for `tokenizer.json`, or `"config"`
                for the tokenizer that Transformers 5 builds from the settings in `tokenizer_config.json`. Defaults to
                what the Transformers version of the folder does, with a warning that names what differs.
            name: String. Name of the layer.

        Returns:
            A `TokenPreprocessor`.

        Raises:
            FileNotFoundError: If the folder has no tokenizer.
            ValueError: If its tokenizer is not supported, or if `tokenizer` is unknown.

        Example:
        ```python
        tokenizer = keras_transfer.text.WordPieceTokenizer(["<pad>", "<s>", "</s>", "[UNK]", "the", "film"])
        packing = keras_transfer.text.Packing(start=["<s>"], between=["</s>"], end=["</s>"], pad="<pad>")
        keras_transfer.text.TokenPreprocessor(tokenizer, packing).save("my_preprocessor")
        keras_transfer.text.TokenPreprocessor.load("my_preprocessor", sequence_length=64)
        ```
        """
        found = read_tokenizer_folder(folder, target, tokenizer)
        if sequence_length is None:
            sequence_length = found["sequence_length"] or DEFAULT_LENGTH
        return cls(found["tokenizer"], found["packing"], sequence_length, split=split or found["split"], name=name)


def masked_ids(tokenizer, texts):
    """Returns the ids of texts. The mask token in a text becomes its id. Other special tokens are ordinary text.

    The texts between mask tokens are tokenized separately. White space in front of a mask token belongs to it.
    """
    mask = tokenizer.mask_token
    texts = tf.strings.regex_replace(texts, r"\s*" + re.escape(mask), mask.replace("\\", "\\\\"))
    parts = tf.strings.split(texts, mask)
    ids = tokenizer.tokenize(parts.values)
    starts = tf.boolean_mask(parts.row_starts(), parts.row_lengths() > 0)[:, None]
    first = tf.scatter_nd(starts, tf.ones_like(starts[:, 0]), tf.shape(parts.values, tf.int64))
    behind = 1 - first  # Each part but the first of a text follows a mask token.
    marks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(behind)], tokenizer.mask_id), behind)
    return parts.with_values(tf.concat([marks, tf.cast(ids, tf.int32)], axis=1)).merge_dims(1, 2)


def mask_positions(token_ids, mask_id):
    """Returns the positions of the mask token in each row, int32 [batch, places], padded with -1."""
    where = tf.broadcast_to(tf.range(tf.shape(token_ids)[1])[None], tf.shape(token_ids))
    positions = tf.ragged.boolean_mask(where, token_ids == mask_id).to_tensor(-1)
    return tf.pad(positions, [[0, 0], [0, tf.maximum(1 - tf.shape(positions)[1], 0)]], constant_values=-1)


def count_truncated(preprocessor, texts, inputs):
    """Returns the number of texts that were truncated, or 0 if there was a warning already.

    Without a fixed `sequence_length`, it is 0. For a preprocessor of another library, texts that just fit are counted
    too.
    """
    length, mask = getattr(preprocessor, "sequence_length", None), inputs.get("padding_mask")
    if mask is None or length != mask.shape[1] or getattr(preprocessor, "warned_of_truncation", False):
        return 0
    [full] = np.nonzero(np.sum(mask, axis=1) == length)
    if not len(full) or not isinstance(preprocessor, WordLevelPreprocessor):
        return len(full)
    columns = texts if isinstance(texts, tuple) else (texts,)
    columns = tuple([column[row] for row in full] for column in columns)
    longer = preprocess(preprocessor, columns if len(columns) > 1 else columns[0], sequence_length=length + 1)
    return int((np.sum(longer["padding_mask"], axis=1) > length).sum())


def warn_of_truncation(preprocessor, truncated, total):
    """Warns that texts were truncated, if any were, once for each preprocessor."""
    if not truncated or getattr(preprocessor, "warned_of_truncation", False):
        return
    preprocessor.warned_of_truncation = True
    log.warning(
        "%d of %d texts (%.0f%%) reach the sequence length of %d tokens and are truncated there. To read more of "
        "them, pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`, up to the number of "
        "positions of the encoder.",
        truncated,
        total,
        100 * truncated / total,
        preprocessor.sequence_length,
    )
