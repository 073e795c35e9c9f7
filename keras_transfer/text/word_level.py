"""Turns sentences, as lists of words, into rows of a model's inputs. Long sentences become overlapping rows."""

from typing import Any, NamedTuple

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.text.inputs import to_sentences
from keras_transfer.text.preprocessor import Preprocessor, as_text_tensors, checked_length, is_longest
from keras_transfer.text.strings.splitting import SPLITS, split_words
from keras_transfer.text.tensorflow import tf


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

    A subclass implements `_word_pieces(words)`, which returns the pieces [pieces, ...] of words [words] and the number
    of pieces of each word, at least one; and `_pack_words(pieces, sequence_length)`, which makes inputs of ragged
    pieces [rows, None, ...], padded to `sequence_length` or, with `None`, to the longest row. If it adds special
    tokens, it sets `num_special_tokens`, and `num_start_tokens`, the number of those in front of the pieces.
    """

    num_start_tokens = 0
    num_special_tokens = 0

    @expects(split=one_of(*SPLITS))
    def __init__(self, sequence_length, split, name=None, min_length=1):
        super().__init__(name=name)
        self._min_length = min_length
        self.sequence_length = checked_length(sequence_length, min_length)
        self.split = split

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


class WholeWordPreprocessor(WordLevelPreprocessor):
    """Base class of the word-level preprocessors that never split a word and do not accept pairs."""

    def call(self, texts, sequence_length=None):
        self._check_single(texts)
        sequence_length = self._length_of(sequence_length)
        longest = self.sequence_length if sequence_length is None else sequence_length
        words = self.split_words(tf.reshape(texts, [-1]))[:, :longest]
        inputs = self._pack_words(words.with_values(self._word_pieces(words.values)[0]), sequence_length)
        return {key: value[0] for key, value in inputs.items()} if texts.shape.rank == 0 else inputs


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
