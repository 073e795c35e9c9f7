"""The base classes of preprocessors: Keras layers, run by TensorFlow, that turn raw text into a model's inputs."""

import operator
import os
from typing import Any, NamedTuple

import keras

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lazy import tf
from keras_transfer.text.inputs import check_pair, to_list, to_sentences
from keras_transfer.text.strings.splitting import SPLITS, split_words

DEFAULT_LENGTH = 128


class LengthError(ValueError):
    """Raised if `sequence_length` is invalid, which is no fault of the files that a preprocessor is loaded from."""

    # TensorFlow raises an error of `Dataset.map` under its own type only if it has this constructor.
    __init__ = Exception.__init__


class Preprocessor(keras.layers.Layer):
    """A layer that turns raw text into model inputs; the base class of all preprocessors.

    It can be called on strings, mapped over a `tf.data.Dataset`, traced into a SavedModel, and called on
    `keras.Input(shape=(), dtype="string")` in a functional model. On every Keras backend it computes with TensorFlow on
    the CPU and returns TensorFlow tensors.

    A subclass implements `call(texts, sequence_length)`, which receives string tensors (a tuple of two for pairs), and
    `compute_output_spec` for functional models.

    Args:
        name: String. Name of the layer.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self.built = True

    def __call__(self, texts, sequence_length=None, training=None):
        """Returns the model inputs of texts. Functional models pass `training`, which has no effect."""
        if _is_symbolic(texts):
            # A `.keras` file stores the tuple of a pair as a list.
            texts = tuple(texts) if isinstance(texts, list) else texts
            return super().__call__(texts, sequence_length=sequence_length)
        # `Layer.__call__` would convert to tensors of Keras's backend, but JAX has no strings.
        with tf.device("CPU:0"):
            return self.call(as_text_tensors(texts), sequence_length=sequence_length)

    def _check_single(self, texts):
        if isinstance(texts, tuple):
            raise ValueError(f"`{type(self).__name__}` does not support pairs of texts. Received: a pair")


class HasTokenizer:
    """Mixin of preprocessors that have a `tokenizer`, and expose its vocabulary and its assets as their own."""

    tokenizer: Any

    @property
    def vocabulary(self) -> list[str]:
        """List of strings, the tokens in the order of their ids."""
        return self.tokenizer.vocabulary

    @property
    def vocabulary_size(self) -> int:
        """Integer. Number of ids."""
        return self.tokenizer.vocabulary_size

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token.

        Args:
            token: String.

        Returns:
            An integer, or `None` if the vocabulary lacks the token.
        """
        return self.tokenizer.token_to_id(token)

    def save_assets(self, dir_path: str | os.PathLike) -> None:
        """Writes the vocabulary into a folder.

        Args:
            dir_path: String or path.
        """
        self.tokenizer.save_assets(dir_path)

    def load_assets(self, dir_path: str | os.PathLike) -> None:
        """Reads the vocabulary that `save_assets` wrote.

        Args:
            dir_path: String or path.
        """
        self.tokenizer.load_assets(dir_path)


class WordRows(NamedTuple):
    """The inputs that a preprocessor makes of sentences of words, and where each word is read.

    Attributes:
        inputs: Dict of tensors [rows, length, ...], the inputs of the encoder.
        sentence: Int32 tensor [rows], the sentence of each row.
        row: Int32 tensor [words], the row in which each word of all sentences is read.
        position: Int32 tensor [words], the position of each word, or of its first sub-word, in that row.
    """

    inputs: dict
    sentence: object
    row: object
    position: object


class WordLevelPreprocessor(Preprocessor):
    """Base class of the preprocessors that also accept sentences as lists of words.

    A sentence that is too long is cut into rows that overlap by a quarter. Each word is read in only one of them: the
    one in which the shorter of its left and right contexts is longest.

    A subclass implements `_features()`, which returns a dict from the names of its inputs to their axes behind batch
    and length; `_word_pieces(words)`, which returns the pieces [pieces, ...] of words [words] and the number of pieces
    of each word, at least one; and `_pack_words(pieces, sequence_length)`, which makes inputs of ragged pieces [rows,
    None, ...], padded to `sequence_length` or, with `None`, to the longest row. If it adds special tokens, it sets
    `num_special_tokens`, and `num_start_tokens`, the number of those in front of the pieces. A text is the row of its
    words, unless `_encode(columns, sequence_length)` makes its inputs otherwise.
    """

    accepts_pairs = False
    num_start_tokens = 0
    num_special_tokens = 0

    @expects(split=one_of(*SPLITS))
    def __init__(self, sequence_length, split, name=None, min_length=1):
        super().__init__(name=name)
        self._min_length = min_length
        self.sequence_length = checked_length(sequence_length, min_length)
        self.split = split

    def call(self, texts, sequence_length=None):
        columns = self._columns_of(texts)
        inputs = self._encode([tf.reshape(column, [-1]) for column in columns], self._length_of(sequence_length))
        return inputs if columns[0].shape.rank else {name: values[0] for name, values in inputs.items()}

    def compute_output_spec(self, texts, sequence_length=None):
        self._columns_of(texts)
        shape = (*batch_shape(texts), self._length_of(sequence_length))
        return {name: keras.KerasTensor((*shape, *axes), "int32", name=name) for name, axes in self._features().items()}

    def _columns_of(self, texts):
        if not self.accepts_pairs:
            self._check_single(texts)
        return texts if isinstance(texts, tuple) else (texts,)

    def _encode(self, columns, sequence_length):
        """Returns the inputs of columns of texts [batch], given a length, or `None` for that of the longest row."""
        longest = self.sequence_length if sequence_length is None else sequence_length
        words = self.split_words(columns[0])[:, :longest]
        return self._pack_words(words.with_values(self._word_pieces(words.values)[0]), sequence_length)

    def _length_of(self, sequence_length):
        """Returns the length that a call requests, by default the constructor's. `None` is the longest row's."""
        if is_longest(sequence_length):
            return None
        return self.sequence_length if sequence_length is None else checked_length(sequence_length, self._min_length)

    def words(self, texts: Any) -> list[list[str]]:
        """Returns the unchanged words of texts, in the form that `encode_words` expects. This needs no vocabulary.

        Args:
            texts: A list, array, table column or tensor of strings.

        Returns:
            List of lists of strings.

        Example:
        ```python
        keras_transfer.text.WordPreprocessor().words(["A film, long."])  # [["A", "film", ",", "long", "."]]
        ```
        """
        with tf.device("CPU:0"):
            rows = self.split_words(tf.reshape(as_text_tensors(texts), [-1])).to_list()
        return [[word.decode("utf-8") for word in row] for row in rows]

    def split_words(self, texts: Any) -> Any:
        """Splits texts into words in the graph.

        Args:
            texts: String tensor of shape `[batch]`.

        Returns:
            A ragged string tensor of shape `[batch, None]`.
        """
        return split_words(texts, self.split)

    def encode_words(self, words: Any, sequence_length: int | None = None) -> WordRows:
        """Returns the inputs of sentences of words, and where each word is read.

        Args:
            words: List of lists of strings, or a ragged string tensor [sentences, None].
            sequence_length: Integer. Length of the rows. `"longest"` pads to the longest row, and still cuts at the
                constructor's length. Defaults to the constructor's.

        Returns:
            `WordRows`.

        Raises:
            ValueError: If words are not strings, or if the length is too small.

        Example:
        ```python
        preprocessor = keras_transfer.text.WordPreprocessor(["the", "film"], sequence_length=4)
        rows = preprocessor.encode_words([["the", "film", "of", "the", "year"], ["film"]])
        rows.inputs["token_ids"], rows.row, rows.position
        ```
        """
        sequence_length = self._length_of(sequence_length)
        longest = self.sequence_length if sequence_length is None else sequence_length
        with tf.device("CPU:0"):
            words = words if isinstance(words, tf.RaggedTensor) else as_ragged(words)
            pieces, counts = self._word_pieces(words.values)
            counts = words.with_values(tf.cast(counts, tf.int32))
            first, lengths, sentence, row, position = _plan_rows(counts, longest - self.num_special_tokens)
            places = tf.ragged.range(first, first + lengths)
            pieces = places.with_values(tf.gather(pieces, places.values))
            inputs = self._pack_words(pieces, sequence_length)
        return WordRows(inputs, sentence, row, position + self.num_start_tokens)


def _is_symbolic(texts):
    parts = texts[:2] if isinstance(texts, (tuple, list)) else (texts,)
    return any(isinstance(part, keras.KerasTensor) for part in parts)


def preprocess(preprocessor, texts, **options):
    """Calls a preprocessor (of this library or of KerasHub, or a function) on texts or pairs of texts."""
    # KerasHub's preprocessors interpret a tuple as (texts, labels) and return the labels, unless `y` is passed.
    if isinstance(texts, tuple) and any(cls.__module__.startswith("keras_hub.") for cls in type(preprocessor).__mro__):
        options["y"] = None
    return preprocessor(texts, **options)


def is_longest(sequence_length):
    """Returns whether rows are padded to the longest text of a batch."""
    return isinstance(sequence_length, str) and sequence_length == "longest"


def checked_length(sequence_length, min_length=1):
    """Returns a sequence length as an `int`."""
    try:
        length = operator.index(sequence_length)
    except TypeError:
        length = 0
    if length < min_length:
        raise LengthError(
            f"`sequence_length` must be an integer of at least {min_length}. A call also accepts 'longest' or None. "
            "To map a dataset of (texts, labels), use `ds.map(lambda x, y: (preprocessor(x), y))`. "
            f"Received: sequence_length={sequence_length!r}"
        )
    return length


def batch_shape(texts):
    """Returns the shape of symbolic texts or pairs: `()` or `(batch,)`."""
    shape = (texts[0] if isinstance(texts, tuple) else texts).shape
    rule = 'Texts in a functional model must be scalars: use `keras.Input(shape=(), dtype="string")`.'
    expect(len(shape) <= 1, rule, shape=shape)
    return shape


def as_text_tensors(texts):
    """Returns raw text as a string tensor of rank 0 or 1, and pairs as a tuple of two."""
    if not isinstance(texts, tuple):
        return _as_text_tensor(texts)
    check_pair(texts)
    first, second = (_as_text_tensor(part) for part in texts)
    rule = "The two parts of a pair must contain the same number of texts."
    expect(first.shape.is_compatible_with(second.shape), rule, first=first.shape, second=second.shape)
    return first, second


def _as_text_tensor(texts):
    if not tf.is_tensor(texts):
        values = to_list(texts)
        return tf.constant(values[0] if isinstance(texts, (str, bytes)) else values, tf.string)
    expect(isinstance(texts, tf.Tensor) and texts.dtype == tf.string, "Texts must be a tensor of strings.", texts=texts)
    rule = (
        "A tensor of texts must have shape [batch] or []. In a functional model, use "
        '`keras.Input(shape=(), dtype="string")`.'
    )
    expect(texts.shape.rank in (0, 1), rule, texts=texts.shape)
    return texts


def import_tensorflow_text():
    """Returns the module `tensorflow_text`."""
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Tokenization requires TensorFlow Text: `pip install tensorflow-text` (the same minor version as "
            f"TensorFlow). Received: {error}"
        ) from error
    return tensorflow_text


def check_word_level(preprocessor):
    """Raises a `ValueError` if a preprocessor does not accept sentences as lists of words."""
    expect(
        isinstance(preprocessor, WordLevelPreprocessor),
        "Word-level labels require a preprocessor that takes words: `BertPreprocessor` (also with the vocabulary "
        "of a KerasHub tokenizer), `ElmoPreprocessor`, `TokenPreprocessor` or `WordPreprocessor`.",
        preprocessor=preprocessor,
    )


def character_offsets(text, words):
    """Returns `(start, end)` of each word in the characters of the text that was split into these words."""
    found, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        found.append((start, end))
    return found


def as_ragged(sentences):
    """Returns a list of lists of strings as a ragged string tensor [sentences, None]."""
    sentences = to_sentences(sentences)
    words = tf.constant([word for words in sentences for word in words], tf.string)
    return tf.RaggedTensor.from_row_lengths(words, tf.constant([len(words) for words in sentences], tf.int64))


def pad_words(name, words, sequence_length):
    """Returns ragged inputs [batch, None, ...] as dense ones, with their padding mask.

    Args:
        sequence_length: Integer. Number of words that a row is truncated and padded to. If `None`, rows are padded to
            the longest, but to at least one word.
    """
    lengths = tf.cast(words.row_lengths(), tf.int32)
    length = tf.reduce_max(tf.concat([lengths, [1]], 0)) if sequence_length is None else sequence_length
    inner = words.values.shape[1:]
    dense = words.to_tensor(0)
    missing = tf.maximum(length - tf.shape(dense)[1], 0)
    dense = tf.pad(dense, [[0, 0], [0, missing], *[[0, 0]] * len(inner)])[:, :length]
    if sequence_length is not None:
        dense.set_shape([None, sequence_length, *inner])
    return {name: dense, "padding_mask": tf.cast(tf.range(length)[None] < lengths[:, None], tf.int32)}


def _plan_rows(counts, room):
    """Decides which pieces make up the rows, and where each word is read.

    Args:
        counts: Ragged int32 tensor [sentences, None], the number of pieces of each word.
        room: Integer. Number of pieces that fit into a row.

    Returns:
        Int32 tensors: the first piece of each row (among those of all sentences), the number of its pieces and its
        sentence [rows]; the row of each word and the position of its first piece in that row [words].
    """
    stride = room - room // 4
    totals = tf.reduce_sum(counts, axis=1)
    begins = tf.cumsum(totals, exclusive=True)
    rows = 1 + (tf.maximum(totals - room, 0) + stride - 1) // stride
    first_row = tf.cumsum(rows, exclusive=True)
    sentence = tf.repeat(tf.range(tf.size(totals)), rows)
    start = stride * (tf.range(tf.size(sentence)) - tf.gather(first_row, sentence))
    lengths = tf.minimum(room, tf.gather(totals, sentence) - start)

    sentence_of_word = tf.cast(counts.value_rowids(), tf.int32)
    place = tf.cumsum(counts.values, exclusive=True) - tf.gather(begins, sentence_of_word)
    # A word is read in the row whose middle is nearest.
    window = tf.clip_by_value(
        (2 * place - (room - 1) + stride) // (2 * stride), 0, tf.gather(rows, sentence_of_word) - 1
    )
    row = tf.gather(first_row, sentence_of_word) + window
    return tf.gather(begins, sentence) + start, lengths, sentence, row, place - stride * window
