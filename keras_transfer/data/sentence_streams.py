"""Sentences as long texts for two directions, window by window, as in ELMo's pretraining."""

import itertools
import os
from typing import Any

import numpy as np

from keras_transfer.core.arrays import data_digest
from keras_transfer.core.documents import read_documents
from keras_transfer.core.expect import FLAG, expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.data.batching import UNUSED, Batches, Contents
from keras_transfer.data.layout import Layout
from keras_transfer.data.planning import Options
from keras_transfer.data.streams import Windows
from keras_transfer.text.elmo_preprocessor import ElmoPreprocessor
from keras_transfer.text.predicted_words import BEGIN, END

_CHUNK = 4096  # This is a number of sentences.
_READ = ("character_ids", "backward_ids")


@expects(batch_size=integer(1), window=integer(1), shuffle=FLAG, seed=integer(0))
def word_streams(
    source: str | os.PathLike,
    preprocessor: Any,
    batch_size: int = 128,
    *,
    window: int = 20,
    shuffle: bool = True,
    seed: int | None = None,
    text_column: str = "text",
) -> Batches:
    """Returns sentences as a few long texts in windows, for `fit` and `evaluate` of a `BidirectionalLM`.

    Each sentence begins with `<S>` and ends with `</S>`, and nothing is padded. The sentences are joined and cut into
    `batch_size` texts of the same length, of which the forward model reads window after window from the beginning, and
    the backward model from the end. A task with `streams=batch_size` carries both states from each window to the next.
    Fewer than `batch_size` words at the end are left out.

    The words are kept in memory, with four bytes for each, and the characters once for each different word.

    Args:
        source: Path or list of paths of files, or an iterable of strings, as for `Corpus.build`. Each line is a
            sentence.
        preprocessor: The task's `text.ElmoPreprocessor`, with a vocabulary.
        batch_size: Integer. Number of texts. Defaults to `128`, the original's.
        window: Integer. Number of words of each text in a batch. Defaults to `20`, the original's.
        shuffle: Boolean. Whether the sentences are in another order in each epoch. Defaults to `True`.
        seed: Integer. Seed of the order. Defaults to `None`, which follows `keras.utils.set_random_seed`.
        text_column: String. Column of JSON, CSV, TSV and Parquet files. Defaults to `"text"`.

    Returns:
        `Batches` of the inputs `character_ids` and `backward_ids` [batch_size, window, characters], `padding_mask` of
        the first, `targets` [batch_size, window, 2] and `begins` [batch_size, 1], and of the targets. They have a
        `state_dict`, and `seek(batch)` begins the epoch with a later batch.

    Raises:
        ValueError: If `preprocessor` is no `ElmoPreprocessor` with a vocabulary, if there are fewer words than texts,
            or if an argument is out of range.

    Example:
    ```python
    texts = ["the film was good", "the film was bad"] * 8
    preprocessor = keras_transfer.text.ElmoPreprocessor(vocabulary=keras_transfer.text.word_vocabulary(texts))
    encoder = keras_transfer.encoders.ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    model = keras_transfer.tasks.BidirectionalLM(encoder, preprocessor, streams=4)
    model.compile(keras.optimizers.Adagrad(0.2, initial_accumulator_value=1.0, global_clipnorm=10.0))
    model.fit(keras_transfer.text.word_streams(texts, preprocessor, 4, window=5), epochs=2)
    ```

    Source: https://github.com/allenai/bilm-tf, `BidirectionalLMDataset`, where the two directions read the sentences in
    different orders.
    """
    has_words = isinstance(preprocessor, ElmoPreprocessor) and preprocessor.has_vocabulary
    rule = "`preprocessor` must be an `ElmoPreprocessor` with a vocabulary, as of `text.word_vocabulary(texts)`."
    expect(has_words, rule, preprocessor=preprocessor)
    sentences = _Sentences(itertools.chain.from_iterable(read_documents(source, text_column, "line")), preprocessor)
    count = len(sentences.tokens) - len(sentences.lengths)  # Each direction reads `<S>` or `</S>`.
    rule = f"There must be at least one word for each of {batch_size} texts. Use a smaller batch size."
    expect(count >= batch_size, rule, words=count)
    options = Options(int(batch_size), (int(window),), shuffle, drop_remainder=True)
    return WordStreams(sentences, preprocessor, options, seed)


class _Sentences:
    """The words of sentences as numbers of different words, of which each is kept once.

    Attributes:
        tokens: Int32 array. The numbers of the words of all sentences, each from `<S>` to `</S>`.
        lengths: Int64 array [sentences], with `<S>` and `</S>`.
        characters: Int16 array [different words, characters].
        ids: Int32 array [different words]. Their places in the vocabulary.
    """

    def __init__(self, lines, preprocessor):
        numbers = {BEGIN.encode(): 0, END.encode(): 1}
        tokens, lengths = [np.zeros(0, "int32")], [np.zeros(0, "int64")]
        characters, ids = [], []
        lines = iter(lines)
        with tf.device("CPU:0"):
            while chunk := list(itertools.islice(lines, _CHUNK)):
                sentences = preprocessor.split_words(tf.constant(chunk, tf.string))
                splits = sentences.row_splits.numpy()
                tokens.append(_number_words(sentences.values.numpy(), splits, numbers))
                lengths.append(np.diff(splits) + 2)
            words = list(numbers)
            for start in range(0, len(words), _CHUNK):
                part = tf.constant(words[start : start + _CHUNK], tf.string)
                characters.append(preprocessor.characters(part).numpy())
                ids.append(preprocessor.predicted_words.look_up(part).numpy())
        self.tokens, self.lengths = np.concatenate(tokens), np.concatenate(lengths)
        self.characters, self.ids = np.concatenate(characters).astype("int16"), np.concatenate(ids)

    def ordered(self, order):
        """Returns what the forward and the backward model read, int32 arrays, given the order of the sentences."""
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[order] - 1
        first = np.repeat(starts[order] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        return self.tokens[first], self.tokens[first + 1]


def _number_words(words, splits, numbers):
    """Returns the numbers of words, each sentence from `<S>` to `</S>`, and gives new words the next `numbers`."""
    different, places = np.unique(words.astype(object), return_inverse=True)
    own = np.array([numbers.setdefault(word, len(numbers)) for word in different], "int32")
    found = own[places.reshape(-1)]
    borders = np.stack([splits[:-1], splits[1:]], axis=1).ravel()
    begin_and_end = np.tile(np.int32([0, 1]), len(splits) - 1)
    return np.insert(found, borders, begin_and_end)


class WordStreams(Windows):
    """The words of sentences as a few long texts in windows; see `word_streams`.

    The seed and the epoch alone determine the order of the sentences.
    """

    def __init__(self, sentences, preprocessor, options, seed=None):
        self.sentences, self.preprocessor = sentences, preprocessor
        self.num_streams, self.window = options.batch_size, options.lengths[-1]
        self.width = (len(sentences.tokens) - len(sentences.lengths)) // self.num_streams
        self._read = None
        contents, count = Contents(Layout("texts"), prepare=_item, makes_labels=True), -(-self.width // self.window)
        names = (*_READ, "padding_mask", "targets", "begins")
        super().__init__(names, self.num_streams * count, options, seed, contents)

    def check_preprocessor(self, preprocessor):
        """Raises a `ValueError` if a preprocessor has different words or characters from the streams' preprocessor."""
        ours = self.preprocessor
        same = preprocessor is None or (
            isinstance(preprocessor, ElmoPreprocessor)
            and preprocessor.has_vocabulary
            and preprocessor.max_characters == ours.max_characters
            and preprocessor.vocabulary == ours.vocabulary
        )
        rule = (
            "The preprocessor of the task must have the vocabulary and the `max_characters` of the one that the "
            "streams were made with."
        )
        expect(same, rule, preprocessor=preprocessor)

    def identity(self):
        words = data_digest([self.sentences.tokens, self.sentences.lengths, self.sentences.characters])
        return {**super().identity(), "words": words}

    def _plan(self, seed, epoch):
        # A row's number is the number of its window times the number of texts, plus the number of its text.
        texts = np.arange(self.num_streams)
        return [(self.window, number * self.num_streams + texts) for number in range(-(-self.width // self.window))]

    def read(self, rows, length):
        """Returns a dict of the inputs and the targets of some rows."""
        forward, backward = self._ordered()
        number, text = np.divmod(np.asarray(rows)[:, None], self.num_streams)
        place = number * self.window + np.arange(length)
        # The backward model reads the same text from its end, in windows that are in the order of the text.
        both = [(forward, backward, place), (backward, forward, self.width - 1 - place[:, ::-1])]
        inputs, targets = {}, []
        for name, (read, predicted, where) in zip(_READ, both):
            real = np.logical_and(where >= 0, where < self.width)
            where = text * self.width + np.clip(where, 0, self.width - 1)
            characters = self.sentences.characters[read[where]].astype("int32")
            inputs[name] = np.where(real[:, :, None], characters, 0)
            targets.append(np.where(real, self.sentences.ids[predicted[where]], UNUSED))
        targets = np.stack(targets, axis=-1).astype("int32")
        begins, mask = (number == 0).astype("int32"), (targets[:, :, 0] != UNUSED).astype("int32")
        return {**inputs, "padding_mask": mask, "targets": targets, "begins": begins}

    def _ordered(self):
        """Returns what both directions read in this epoch, which is computed when it changes."""
        moment = self._moment()
        if self._read is None or self._read[0] != moment:
            order = np.arange(len(self.sentences.lengths))
            if self.options.shuffle:
                order = np.random.default_rng([*moment]).permutation(order)
            self._read = moment, self.sentences.ordered(order)
        return self._read[1]


def _item(columns, random):
    inputs, _, _ = columns
    return inputs, inputs["targets"]
