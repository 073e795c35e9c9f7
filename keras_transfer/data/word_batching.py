"""Batches sentences of words in memory as ids, with a label for each word."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_transfer.core.arrays import row_weights
from keras_transfer.core.expect import expect, expects
from keras_transfer.data.batching import UNUSED, Batches, Contents
from keras_transfer.data.label_names import checked_names, label_ids, weights_of_words
from keras_transfer.data.layout import preprocess_words
from keras_transfer.text.inputs import check_rows_of_batches, to_sentences
from keras_transfer.text.preprocessor import check_word_level


@expects()
def word_batches(
    x: Sequence[Sequence[str]],
    y: Sequence | None = None,
    *,
    preprocessor: Any = None,
    batch_size: int = 32,
    shuffle: bool | None = None,
    seed: int | None = None,
    sample_weight: Any = None,
    label_names: Sequence[str] | None = None,
    class_weight: Mapping | None = None,
) -> Batches:
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
    x = to_sentences(x)
    expect(len(x) > 0, "`x` must contain at least one sentence.", x=x)
    has_weights = sample_weight is not None or class_weight is not None
    if has_weights:
        expect(y is not None, "`sample_weight` and `class_weight` require `y`.", y=None)
    ids = None if y is None else label_ids(x, y, label_names)
    inputs, layout = preprocess_words(x, preprocessor)
    length, labels, weights = inputs["padding_mask"].shape[1], None, None
    if ids is not None:
        labels = layout.spread_answers(ids, length, UNUSED)
    if sample_weight is not None or class_weight is not None:
        # One weight for each position: Keras would apply weights [batch] along the positions.
        weights = layout.spread_answers(weights_of_words(class_weight, label_names, ids), length, 1)
        if sample_weight is not None:
            own = row_weights(sample_weight, len(x), "sentence", " To weight labels, use `class_weight`.")
            weights *= layout.spread(own)[:, None]
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed}
    return Batches.of(inputs, labels, weights, Contents(layout, per_token=True), **options)
