"""Sentences whose words are given, in memory, as batches of ids with a label for each word."""

import copy

import numpy as np

from keras_transfer.text.batches import STEP, TextBatches, choose_lengths, joined
from keras_transfer.text.word_rows import check_of_words, to_sentences

NO_WORD = -1  # the label where no word is read


class WordBatches(TextBatches):
    """A dataset that `fit` and `evaluate` take; made by `word_batches`.

    Each item is `(inputs, labels)` or `(inputs, labels, sample_weights)`, without labels `(inputs,)`; labels and
    weights are [batch, length], labels -1 where no word is read. A row is a sentence, or of a long sentence a part.

    Attributes:
        sentence_lengths: list of int, how many words each sentence has.
        row, position: int arrays [words], where each word of all sentences is read.
    """

    def __init__(self, inputs, places, labels, sample_weight, *options):
        self.sentence_lengths, self.row, self.position = places
        super().__init__(inputs, labels, sample_weight, *options)

    def __getitem__(self, index):
        inputs, *columns = super().__getitem__(index)
        return (inputs, *(column[:, : self._batches[index][0]] for column in columns))

    def by_length(self):
        """Yields the same batches in one `WordBatches` for each length."""
        for length in sorted({length for length, _ in self._batches}):
            part = copy.copy(self)
            # Keras ends an epoch after `predict` too: this part is never dealt out anew, nor counts for the others.
            part.shuffle, part._deals = False, copy.copy(self._deals)
            part._batches = [batch for batch in self._batches if batch[0] == length]
            yield part

    def of_words(self, outputs):
        """Returns which words these batches read, and what a model gave for them.

        Args:
            outputs: array [rows of these batches in order, length, ...].

        Returns:
            Int array of the words' places among those of all sentences, and an array [words, ...].
        """
        at = np.full(len(next(iter(self.inputs.values()))), -1)
        at[self.order] = np.arange(len(self.order))
        words = np.flatnonzero(at[self.row] >= 0)
        return words, outputs[at[self.row[words]], self.position[words]]

    def per_sentence(self, values):
        """Returns values [words of all sentences, ...] as a list of arrays, one for each sentence."""
        return np.split(values, np.cumsum(self.sentence_lengths)[:-1])


def word_batches(
    sentences,
    labels=None,
    preprocessor=None,
    batch_size=32,
    shuffle=True,
    seed=None,
    sample_weight=None,
    label_names=None,
    class_weight=None,
):
    """Turns sentences, whose words are given, and a label for each word into a dataset for `fit`.

    As `batches`, with few lengths and a known number of batches. What is too long for a row is cut into several that
    overlap, and each word has its label in one of them: no word is lost, and none counts twice.

    Args:
        sentences: list of lists of str, the words.
        labels: list of lists as long, of int; of str too where `label_names` are given; None for prediction.
        preprocessor: `model.preprocessor`, or another that takes words: `BertPreprocessor`, `ElmoPreprocessor`,
            `WordPreprocessor`.
        batch_size: int, rows of a batch.
        shuffle: bool, whether batches are drawn anew each epoch.
        seed: int, for the same batches in every run.
        sample_weight: [sentences] floats.
        label_names: list of str, in the order of their numbers.
        class_weight: dict from labels, names or numbers, to the weights of words that have them; of others it is 1.

    Returns:
        A `WordBatches`.

    Raises:
        ValueError: a sentence and its labels differ in length; a label is not among the names; there are no sentences;
            words are no strings.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["the", "film", "ends"])
    sentences, tags = [["The", "film", "ends"], ["Films"]], [["DET", "NOUN", "VERB"], ["NOUN"]]
    train = keras_transfer.text.word_batches(sentences, tags, preprocessor, label_names=["DET", "NOUN", "VERB"])
    train[0][1]  # in some order [[0, 1, 2, -1, ...], [1, -1, ...]]
    ```
    """
    check_of_words(preprocessor)
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    label_names = None if label_names is None else checked_names(label_names)
    sentences = to_sentences(sentences)
    if not sentences:
        raise ValueError("there are no sentences. Received: an empty dataset")
    if labels is None and (sample_weight is not None or class_weight is not None):
        raise ValueError("weights need labels. Received: labels=None")
    ids = None if labels is None else label_ids(sentences, labels, label_names)
    inputs, sentence, row, position = _preprocess(sentences, preprocessor)
    real = inputs["padding_mask"].sum(axis=1)
    table = weights = None
    if ids is not None:
        table = np.full(inputs["padding_mask"].shape, NO_WORD, "int32")
        table[row, position] = ids
    if sample_weight is not None or class_weight is not None:
        # Of each word: Keras takes weights [batch] for those of positions.
        weights = np.ones(inputs["padding_mask"].shape, "float32")
        weights[row, position] = _class_weights(class_weight, label_names, ids)
        weights *= _sentence_weights(sample_weight, len(sentences))[sentence][:, None]
    places = [len(words) for words in sentences], row, position
    lengths = choose_lengths(real, inputs["padding_mask"].shape[1])
    return WordBatches(inputs, places, table, weights, batch_size, lengths, shuffle, seed, False)


def checked_names(names):
    """Returns the names of labels as a list of str.

    Raises:
        ValueError: they are none, less than two, or two are the same.
    """
    names = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(names, (list, tuple)):
        raise ValueError(f"`label_names` is a list of names. Received: {names!r}")
    if len(names) < 2 or len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`label_names` are at least two different names. Received: {names}")
    return [str(name) for name in names]


def _sentence_weights(weights, count):
    if weights is None:
        return np.ones(count, "float32")
    try:
        weights = np.asarray(weights, "float32")
        shape = weights.shape
    except ValueError:
        shape = "lists"
    if shape != (count,):
        raise ValueError(
            f"there is one sample weight for each sentence (`class_weight` weighs labels). Received: {shape} for "
            f"{count} sentences"
        )
    return weights


def _class_weights(weights, names, ids):
    """The weight of each word [words]."""
    known = {name: index for index, name in enumerate(names or ())}
    by_id = {known.get(label, label): weight for label, weight in (weights or {}).items()}
    wrong = [label for label in by_id if isinstance(label, str) or (names and label not in range(len(names)))]
    if wrong:
        raise ValueError(
            f"`class_weight` has weights of labels: {names or 'numbers (names need `label_names`)'}. Received: {wrong}"
        )
    return np.array([by_id.get(label, 1.0) for label in ids.tolist()], "float32")


def label_ids(sentences, labels, names=None):
    """Returns the labels of all words as one int array.

    Args:
        sentences: list of lists of str.
        labels: list of lists of int, or of str that are among the names.
        names: list of str; None where all labels are numbers.

    Raises:
        ValueError: they are not as many as the words, or one is not among the names.
    """
    labels = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    if len(labels) != len(sentences):
        raise ValueError(
            "there is a list of labels for each sentence. "
            f"Received: {len(labels)} lists of labels, {len(sentences)} sentences"
        )
    known = {name: index for index, name in enumerate(names or ())}
    numbers = range(len(known)) if names else range(2**31 - 1)
    expected = f"one of {list(names)}, or its number" if names else "a number from 0 (names need `label_names`)"
    ids = []
    for at, (words, tags) in enumerate(zip(sentences, labels)):
        tags = [tags] if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__") else list(tags)
        if len(tags) != len(words):
            raise ValueError(
                f"there is a label for each word. Received: in sentence {at} {len(words)} words, {words[:8]}, and "
                f"{len(tags)} labels, {tags[:8]}"
            )
        for word, tag in zip(words, tags):
            number = known.get(tag) if isinstance(tag, str) else tag
            whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
            if not whole or number not in numbers:
                raise ValueError(f"a label is {expected}. Received: {tag!r} for {word!r} in sentence {at}")
            ids.append(number)
    return np.array(ids, "int32")


def _preprocess(sentences, preprocessor, chunk=4096):
    """Returns inputs as numpy arrays, padded to the longest row, each row's sentence, and each word's place."""
    parts, sentence, row, position, rows = [], [], [], [], 0
    for start in range(0, len(sentences), chunk):
        part = preprocessor.encode_words(sentences[start : start + chunk], sequence_length="longest")
        parts.append({key: np.asarray(value) for key, value in part.inputs.items()})
        sentence.append(np.asarray(part.sentence) + start)
        row.append(np.asarray(part.row) + rows)
        position.append(np.asarray(part.position))
        rows += len(part.sentence)
    longest = max(part["padding_mask"].shape[1] for part in parts)
    inputs = joined(parts, min(-(-longest // STEP) * STEP, preprocessor.sequence_length))
    return inputs, *(np.concatenate(column) for column in (sentence, row, position))
