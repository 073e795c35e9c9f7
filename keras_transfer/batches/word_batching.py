"""Batches sentences of words in memory as ids, with a label for each word."""

import unicodedata
from collections.abc import Mapping

import numpy as np

from keras_transfer.batches.batching import Batches, concatenate
from keras_transfer.batches.number_names import as_positions, keys_as_positions
from keras_transfer.batches.planning import LENGTH_STEP, Options, lengths_for
from keras_transfer.names import listed
from keras_transfer.text.base import check_rows_of_batches, check_weights, to_sentences
from keras_transfer.text.preprocessors import check_word_level

NO_WORD = -1  # the label of positions where no word is read


class WordPlaces:
    """Where the words of sentences are read: a row of batches is a sentence, or a part of a long one.

    Args:
        sentence_lengths: List of integers. Number of words of each sentence.
        row, position: Integer arrays [words]. The row and the position where each word of all sentences is read.
    """

    def __init__(self, sentence_lengths, row, position):
        self.sentence_lengths, self.row, self.position = sentence_lengths, row, position
        self._words_by_row = np.argsort(row, kind="stable")

    def word_outputs(self, order, outputs):
        """Returns the words that are read in some rows, and the outputs of a model for them.

        Args:
            order: Integer array [rows].
            outputs: Array [rows, length, ...].

        Returns:
            Integer array of the indices of the words among all words of all sentences, and an array [words, ...].
        """
        begin, end = (np.searchsorted(self.row, order, side, sorter=self._words_by_row) for side in ("left", "right"))
        words = np.concatenate([self._words_by_row[first:last] for first, last in zip(begin, end)])
        return words, outputs[np.repeat(np.arange(len(order)), end - begin), self.position[words]]

    def per_sentence(self, values):
        """Splits values [words of all sentences, ...] into a list of arrays, one for each sentence."""
        return np.split(values, np.cumsum(self.sentence_lengths)[:-1])


def word_batches(
    x,
    y=None,
    *,
    preprocessor=None,
    batch_size=32,
    shuffle=None,
    seed=None,
    sample_weight=None,
    label_names=None,
    class_weight=None,
):
    """Turns sentences, as lists of words, and a label for each word into a dataset for `fit`.

    Rows are batched by length as texts are in `batches`, and the number of batches is known. A sentence that is too
    long is cut into overlapping rows, and each word has its label in exactly one of them, so that no word is lost or
    counted twice.

    Args:
        x: List of lists of strings, the words.
        y: List of lists of integers, one for each word, or of strings if `label_names` are given. `None` for
            prediction. Defaults to `None`.
        preprocessor: A word-level preprocessor, such as `model.preprocessor`: `BertPreprocessor`, `ElmoPreprocessor`,
            `TokenPreprocessor` or `WordPreprocessor`.
        batch_size: Integer. Number of rows in a batch. Defaults to `32`.
        shuffle: Boolean. Whether rows are shuffled before each epoch and batched by length. If `False`, they keep their
            order. Defaults to `True` for sentences with labels, `False` for sentences without.
        seed: Integer. Seed of the shuffling, for the same batches in every run. Defaults to `None`.
        sample_weight: List or array [sentences] of floats. Defaults to `None`.
        label_names: List of strings, the names of the labels in order. Defaults to `None`.
        class_weight: Dict from labels (names or integers) to the weights of the words with these labels. All other
            words have the weight 1. Defaults to `None`.

    Returns:
        `Batches`. Labels and weights are [batch, length], and labels are -1 where no word is read.

    Raises:
        ValueError: If there are no sentences, if words are not strings, if a sentence and its labels differ in length,
            or if a label is unknown.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["the", "film", "ends"])
    sentences, tags = [["The", "film", "ends"], ["Films"]], [["DET", "NOUN", "VERB"], ["NOUN"]]
    names = ["DET", "NOUN", "VERB"]
    train = keras_transfer.text.word_batches(sentences, tags, preprocessor=preprocessor, label_names=names)
    train[0][1]  # in some order [[0, 1, 2, -1, ...], [1, -1, ...]]
    ```
    """
    check_word_level(preprocessor)
    check_rows_of_batches(batch_size)
    label_names = None if label_names is None else checked_names(label_names)
    shuffle = y is not None if shuffle is None else shuffle
    x = to_sentences(x)
    if not x:
        raise ValueError("`x` must contain at least one sentence. Received: no sentences")
    if y is None and (sample_weight is not None or class_weight is not None):
        raise ValueError("`sample_weight` and `class_weight` require `y`. Received: y=None")
    ids = None if y is None else label_ids(x, y, label_names)
    inputs, sentence, row, position = _preprocess(x, preprocessor)
    real = inputs["padding_mask"].sum(axis=1)
    table = weights = None
    if ids is not None:
        table = np.full(inputs["padding_mask"].shape, NO_WORD, "int32")
        table[row, position] = ids
    if sample_weight is not None or class_weight is not None:
        # One weight for each position: Keras would apply weights [batch] along the positions.
        weights = np.ones(inputs["padding_mask"].shape, "float32")
        weights[row, position] = _class_weights(class_weight, label_names, ids)
        weights *= _sentence_weights(sample_weight, len(x))[sentence][:, None]
    places = WordPlaces([len(words) for words in x], row, position)
    options = Options(batch_size, tuple(lengths_for(real, inputs["padding_mask"].shape[1])), shuffle)
    return Batches(inputs, table, weights, options, seed, prepare=trim, kind="words", places=places)


def trim(item, length, random):
    """Returns an item of `Batches` whose labels and weights [rows, longest] belong to tokens."""
    inputs, *columns = item
    return (inputs, *(column[:, :length] for column in columns if column is not None))


def checked_names(names):
    """Returns the names of labels as a list of `str`.

    Raises:
        ValueError: If they are not at least two different strings, also after Unicode normalization.
    """
    names = names.tolist() if isinstance(names, np.ndarray) else names
    strings = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name for name in names)
    if not strings or len(names) < 2 or len(set(names)) != len(names):
        advice = " For a dict, pass `[names[i] for i in range(len(names))]`." if isinstance(names, Mapping) else ""
        raise ValueError(
            f"`label_names` must be a list of at least two different names.{advice} "
            f"Received: label_names={listed(names) if isinstance(names, list) else repr(names)[:200]}"
        )
    forms = {}
    for index, name in enumerate(names):
        other = forms.setdefault(unicodedata.normalize("NFC", name), index)
        if other != index:
            raise ValueError(
                "`label_names` must differ by more than their Unicode form. Bring labels to one form, such as with "
                f"`unicodedata.normalize('NFC', label)`. Received: {names[index]!r} at positions {other} and {index}"
            )
    return [str(name) for name in names]


def _sentence_weights(weights, count):
    if weights is None:
        return np.ones(count, "float32")
    try:
        weights = np.asarray(weights, "float32")
        shape = weights.shape
    except ValueError:
        shape = "lists of different lengths"
    if shape != (count,):
        raise ValueError(
            "`sample_weight` must contain one weight for each sentence. To weight labels, use `class_weight`. "
            f"Received: shape {shape} for {count} sentences"
        )
    return check_weights(weights)


def _class_weights(weights, names, ids):
    """Returns the weight of each word [words]."""
    by_id = dict(zip(keys_as_positions(weights or {}, names or ()), (weights or {}).values()))
    wrong = [label for label in by_id if isinstance(label, str) or (names and label not in range(len(names)))]
    if wrong:
        expected = listed(names) if names else "integers (names require `label_names`)"
        raise ValueError(f"The keys of `class_weight` must be labels: {expected}. Received: {wrong}")
    check_weights(np.array(list(by_id.values())), "class_weight")
    return np.array([by_id.get(label, 1.0) for label in ids.tolist()], "float32")


def label_ids(sentences, labels, names=None):
    """Returns the labels of all words as one integer array.

    Args:
        sentences: List of lists of strings.
        labels: List of lists of integers, or of strings that are among the names.
        names: List of strings, or `None` if all labels are integers. Defaults to `None`.

    Raises:
        ValueError: If the numbers of labels and words differ, or if a label is unknown.
    """
    labels = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    if len(labels) != len(sentences):
        raise ValueError(
            "Labels must contain one list for each sentence. "
            f"Received: {len(labels)} lists of labels, {len(sentences)} sentences"
        )
    known = {name: index for index, name in enumerate(names or ())}
    numbers = range(len(known)) if names else range(2**31 - 1)
    expected = (
        f"one of {listed(names)}, or its index" if names else "integers of at least 0 (names require `label_names`)"
    )
    ids, named = [], _numbers_as_positions(labels, names or ())
    for index, (words, tags) in enumerate(zip(sentences, labels)):
        tags = [tags] if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__") else list(tags)
        if len(tags) != len(words):
            raise ValueError(
                f"Labels must contain one label for each word. Received: {len(words)} words, {words[:8]}, and "
                f"{len(tags)} labels, {tags[:8]}, in sentence {index}"
            )
        for word, tag in zip(words, tags):
            is_integer = isinstance(tag, (int, np.integer)) and not isinstance(tag, bool)
            number = named.get(tag, tag) if is_integer else known.get(tag) if isinstance(tag, str) else None
            if number is None or number not in numbers:
                raise ValueError(f"Labels must be {expected}. Received: {tag!r} for {word!r} in sentence {index}")
            ids.append(number)
    return np.array(ids, "int32")


def _numbers_as_positions(labels, names):
    """Returns a dict from the integers among the labels of words to their positions, if these are not the same."""
    rows = (tags for tags in labels if hasattr(tags, "__len__") and not isinstance(tags, (str, bytes)))
    found = [tag for tags in rows for tag in tags if isinstance(tag, (int, np.integer)) and not isinstance(tag, bool)]
    found = sorted(set(found))
    return dict(zip(found, as_positions(np.array(found, int), names).tolist()))


def _preprocess(sentences, preprocessor, chunk=4096):
    """Returns the inputs as NumPy arrays (padded to the longest row), each row's sentence, and each word's place."""
    parts, sentence, row, position, rows = [], [], [], [], 0
    for start in range(0, len(sentences), chunk):
        part = preprocessor.encode_words(sentences[start : start + chunk], sequence_length="longest")
        parts.append({key: np.asarray(value) for key, value in part.inputs.items()})
        sentence.append(np.asarray(part.sentence) + start)
        row.append(np.asarray(part.row) + rows)
        position.append(np.asarray(part.position))
        rows += len(part.sentence)
    longest = max(part["padding_mask"].shape[1] for part in parts)
    inputs = concatenate(parts, min(-(-longest // LENGTH_STEP) * LENGTH_STEP, preprocessor.sequence_length))
    return inputs, *(np.concatenate(column) for column in (sentence, row, position))
