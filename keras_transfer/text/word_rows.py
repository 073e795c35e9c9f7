"""Words that are given one by one as rows of a model's inputs, a long sentence as several rows that overlap."""

from typing import NamedTuple

from keras_transfer.text.inputs import to_list
from keras_transfer.text.preprocessor import Preprocessor, as_text_tensors, checked_length, is_longest
from keras_transfer.text.splitting import check_split, split_words


class WordRows(NamedTuple):
    """What a preprocessor makes of sentences whose words are given, and where each word is read.

    Attributes:
        inputs: dict of tensors [rows, length, ...], what the encoder takes.
        sentence: int32 [rows], the sentence of each row.
        row, position: int32 [words], the row in which each word of all sentences is read, and where in that row it (of
            a word of several sub-words the first) stands.
    """

    inputs: dict
    sentence: object
    row: object
    position: object


class OfWords(Preprocessor):
    """Base of the preprocessors that can also be given words one by one.

    A sentence that is too long is cut into rows that overlap by a quarter. Each word is read in one of them, where most
    stands around it on its shorter side.

    A subclass writes `_pieces(words)`, which returns for words [words] their pieces [pieces, ...] and how many each
    has, one at least; and `_rows(pieces, width)`, which makes inputs of ragged pieces [rows, None, ...] with the
    `specials` tokens around them, padded to `width`, or with None to the longest.

    Args:
        sequence_length: int, the longest row.
        split: how texts are split into words: `"punctuation"` or `"whitespace"`, as for `WordPreprocessor`.
        name: str.
    """

    specials = 0  # tokens around the pieces, the first of them in front

    def __init__(self, sequence_length, split, name=None):
        super().__init__(name=name)
        check_split(split)
        self.sequence_length = self._checked_length(sequence_length)
        self.split = split

    def _checked_length(self, sequence_length):
        return checked_length(sequence_length)

    def _length_of(self, sequence_length):
        """The length that a call asks for, or the constructor's; None for that of the longest row."""
        if is_longest(sequence_length):
            return None
        return self.sequence_length if sequence_length is None else self._checked_length(sequence_length)

    def words(self, texts):
        """Returns the words of texts as they are written, as `encode_words` takes them; this needs no vocabulary.

        Args:
            texts: a list, array, column of a table or tensor of str.

        Returns:
            List of lists of str.

        Example:
        ```python
        keras_transfer.text.WordPreprocessor().words(["A film, long."])  # [["A", "film", ",", "long", "."]]
        ```
        """
        import tensorflow as tf

        with tf.device("CPU:0"):
            rows = self.split_words(tf.reshape(as_text_tensors(texts), [-1])).to_list()
        return [[word.decode("utf-8") for word in row] for row in rows]

    def split_words(self, texts):
        """Returns the words of texts [batch] in the graph, ragged [batch, None]."""
        return split_words(texts, self.split)

    def encode_words(self, words, sequence_length=None):
        """Returns the inputs of sentences whose words are given, and where each word is read.

        Args:
            words: list of lists of str, or a ragged string tensor [sentences, None].
            sequence_length: int, the length of the rows instead of the constructor's; `"longest"` to pad only to the
                longest row (still cut to the constructor's).

        Returns:
            `WordRows`.

        Raises:
            ValueError: words are no strings; a length is too small.

        Example:
        ```python
        preprocessor = keras_transfer.text.WordPreprocessor(["the", "film"], sequence_length=4)
        rows = preprocessor.encode_words([["the", "film", "of", "the", "year"], ["film"]])
        rows.inputs["token_ids"], rows.row, rows.position
        ```
        """
        import tensorflow as tf

        width = self._length_of(sequence_length)
        longest = self.sequence_length if width is None else width
        with tf.device("CPU:0"):
            words = words if isinstance(words, tf.RaggedTensor) else as_ragged(words)
            pieces, counts = self._pieces(words.values)
            plan = _plan(words.with_values(tf.cast(counts, tf.int32)), longest - self.specials)
            first, lengths, sentence, row, position = plan
            places = tf.ragged.range(first, first + lengths)
            pieces = places.with_values(tf.gather(pieces, places.values))
            inputs = self._rows(pieces, width)
        return WordRows(inputs, sentence, row, position + min(self.specials, 1))


class WholeWords(OfWords):
    """Base of those whose pieces are whole words; a subclass says in `single` that it takes no pairs."""

    def call(self, texts, sequence_length=None):
        import tensorflow as tf

        self._check_single(texts)
        width = self._length_of(sequence_length)
        words = self.split_words(tf.reshape(texts, [-1]))[:, : self.sequence_length if width is None else width]
        inputs = self._rows(words.with_values(self._pieces(words.values)[0]), width)
        return {key: value[0] for key, value in inputs.items()} if texts.shape.rank == 0 else inputs

    def _check_single(self, texts):
        if isinstance(texts, tuple):
            raise ValueError(f"{self.single}. Received: pairs")


def check_of_words(preprocessor):
    """Raises a ValueError for a preprocessor that cannot be given words one by one."""
    if not isinstance(preprocessor, OfWords):
        raise ValueError(
            "labels for words need a preprocessor that takes words one by one: `text.BertPreprocessor` (of a KerasHub "
            "tokenizer's vocabulary too), `ElmoPreprocessor` or `WordPreprocessor`. "
            f"Received: {type(preprocessor).__name__}"
        )


def as_ragged(sentences):
    """Returns a list of lists of str as a ragged string tensor [sentences, None]."""
    import tensorflow as tf

    sentences = to_sentences(sentences)
    words = tf.constant([word for words in sentences for word in words], tf.string)
    return tf.RaggedTensor.from_row_lengths(words, tf.constant([len(words) for words in sentences], tf.int64))


def is_sentences(x):
    """Returns whether `x` is sentences whose words are given: a list or column of lists."""
    if hasattr(x, "to_pylist"):  # Arrow
        return "list" in str(getattr(x, "type", ""))
    kind = str(getattr(x, "dtype", "")).lower()
    if hasattr(x, "row_splits") or kind.startswith("list"):  # TensorFlow's ragged tensors; Arrow's lists in pandas
        return True
    if not isinstance(x, list) and not (hasattr(x, "ndim") and kind.startswith(("object", "<u", "|s"))):
        return False
    return any(isinstance(value, (list, tuple)) or _is_column(value) for value in list(x[:100]))


def _is_column(value):
    return getattr(value, "ndim", 0) == 1 and getattr(getattr(value, "dtype", None), "kind", "") in "OUS"


def to_sentences(sentences):
    """Returns sentences in memory, whose words are given, as a list of lists of str.

    Raises:
        ValueError: a sentence is no list, or a word no string.
    """
    for name in ("to_pylist", "to_list"):  # Arrow; ragged tensors, pandas
        sentences = getattr(sentences, name)() if hasattr(sentences, name) else sentences
    result = []
    for index, words in enumerate(sentences):
        if not isinstance(words, (list, tuple)) and not _is_column(words):
            raise ValueError(f"a sentence is a list of words. Received: {words!r:.100} as sentence {index}")
        try:
            result.append(to_list(list(words)))
        except ValueError as error:
            raise ValueError(f"in sentence {index}: {error}") from error
    return result


def pad_words(inputs, width):
    """Returns what ragged inputs [batch, None, ...] are as dense ones, with their mask.

    Args:
        inputs: dict of ragged tensors of the same row lengths.
        width: int, how many words a row has then; None for as many as the longest has, and one at least.
    """
    import tensorflow as tf

    rows = next(iter(inputs.values()))
    lengths = tf.cast(rows.row_lengths(), tf.int32)
    width = tf.maximum(tf.reduce_max(tf.concat([lengths, [1]], 0)), 1) if width is None else width
    padded = {}
    for name, values in inputs.items():
        inner = values.values.shape[1:]
        dense = values.to_tensor(0)
        missing = tf.maximum(width - tf.shape(dense)[1], 0)
        padded[name] = tf.pad(dense, [[0, 0], [0, missing], *[[0, 0]] * len(inner)])[:, :width]
        if isinstance(width, int):
            padded[name].set_shape([None, width, *inner])
    mask = tf.cast(tf.range(width)[None] < lengths[:, None], tf.int32)
    return {**padded, "padding_mask": mask}


def _plan(counts, room):
    """Which pieces make the rows, and where each word is read.

    Args:
        counts: ragged int32 [sentences, None], how many pieces each word has.
        room: int, how many pieces a row has room for.

    Returns:
        Int32 tensors: the first piece of each row (among those of all sentences) and how many there are [rows], its
        sentence [rows]; the row of each word and its first piece's place in it [words].
    """
    import tensorflow as tf

    stride = room - room // 4
    totals = tf.reduce_sum(counts, axis=1)
    begins = tf.cumsum(totals, exclusive=True)
    rows = 1 + (tf.maximum(totals - room, 0) + stride - 1) // stride
    first_row = tf.cumsum(rows, exclusive=True)
    sentence = tf.repeat(tf.range(tf.size(totals)), rows)
    start = stride * (tf.range(tf.size(sentence)) - tf.gather(first_row, sentence))
    lengths = tf.minimum(room, tf.gather(totals, sentence) - start)

    of = tf.cast(counts.value_rowids(), tf.int32)
    place = tf.cumsum(counts.values, exclusive=True) - tf.gather(begins, of)
    # The row whose middle is nearest.
    window = tf.clip_by_value((2 * place - (room - 1) + stride) // (2 * stride), 0, tf.gather(rows, of) - 1)
    row = tf.gather(first_row, of) + window
    return tf.gather(begins, sentence) + start, lengths, sentence, row, place - stride * window
