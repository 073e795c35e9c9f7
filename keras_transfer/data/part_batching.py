"""Batches rows of several texts in memory. Each text stays separate, for an encoder that encodes them separately."""

from typing import Any

import numpy as np

from keras_transfer.core.arrays import as_column
from keras_transfer.data.batching import Batches, Contents
from keras_transfer.data.text_batching import fit_to, preprocess_texts
from keras_transfer.text.inputs import check_batch_size, to_columns

PARTS = Contents("parts", in_parts=True)


def are_parts(data):
    """Returns whether a dataset is `Batches` whose rows are several texts, which are encoded separately."""
    return isinstance(data, Batches) and data.contents.kind == "parts"


def with_placeholders(data, texts=False):
    """Returns the same batches with labels, which Keras requires even for a loss that uses none: zeros [rows].

    With `texts`, they are numbers [rows, parts], the same for equal texts, which are in different batches if possible.
    """
    ids = data.inputs.get("token_ids", next(iter(data.inputs.values())))
    if not texts:
        return data.replace(labels=np.zeros(len(ids), "float32"))
    numbers = {}
    found = [[numbers.setdefault(_key(text), len(numbers)) for text in row] for row in ids]
    return data.replace(labels=np.array(found, "float32"), parts_apart=True)


def _key(text):
    return text.tobytes() if isinstance(text, np.ndarray) else text


def part_batches(
    x: tuple,
    y: Any = None,
    *,
    preprocessor: Any = None,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int | None = None,
    sample_weight: Any = None,
    drop_remainder: bool = False,
) -> Batches:
    """Turns columns of texts into a dataset whose rows have several texts, which an encoder encodes separately.

    `TextEmbedder` trains on such rows: a text, a similar one, and perhaps a dissimilar one. Unlike pairs in `batches`,
    the texts of a row are never packed into one sequence. All texts of a batch are padded to the longest. Otherwise,
    the rows are batched by length as in `batches`.

    Args:
        x: Tuple of at least two columns of texts, each as for `batches`.
        y: List or array [rows] of numbers. Defaults to `None`, for prediction and for losses that use no labels.
        preprocessor: Callable from texts to a dict of inputs, as for `batches`.
        batch_size: Integer. Number of rows in a batch. Defaults to `32`.
        shuffle: Boolean. Whether rows are shuffled before each epoch and batched by length. If `False`, they keep their
            order. Defaults to `True`.
        seed: Integer. Seed of the shuffling, for the same batches in every run. Defaults to `None`.
        sample_weight: List or array [rows] of floats. Defaults to `None`.
        drop_remainder: Boolean. Whether the short batch is dropped, so that all batches have `batch_size` rows.
            Defaults to `False`.

    Returns:
        `Batches` whose inputs are [batch, parts, length]. The encoder encodes each part separately.

    Raises:
        ValueError: If `x` is not a tuple of at least two columns, if there are no rows, if texts are not strings,
            or if columns, labels and weights differ in number.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "film"])
    columns = ["A film", "The film"], ["Film", "A film!"]
    train = keras_transfer.text.part_batches(columns, preprocessor=preprocessor)
    train[0][0]["token_ids"].shape  # (2, 2, 5)
    ```
    """
    columns = to_parts(x)
    count = len(columns[0])
    check_batch_size(preprocessor, batch_size, count, drop_remainder)
    y, sample_weight = as_column(y, "labels", count), as_column(sample_weight, "sample weights", count)
    parts = [preprocess_texts(column, preprocessor) for column in columns]
    length = max((part["padding_mask"].shape[1] for part in parts if "padding_mask" in part), default=0)
    inputs = {key: np.stack([fit_to(part[key], length) for part in parts], axis=1) for key in parts[0]}
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "shuffle": shuffle,
        "drop_remainder": drop_remainder,
        "seed": seed,
    }
    return Batches.of(inputs, y, sample_weight, PARTS, **options)


def to_parts(texts):
    """Returns columns of texts as a tuple of object arrays [rows]."""
    if not isinstance(texts, tuple) or len(texts) < 2:
        received = f"a tuple of {len(texts)}" if isinstance(texts, tuple) else f"{type(texts).__name__} {texts!r:.100}"
        raise ValueError(f"Several texts per row must be a tuple of at least two columns. Received: {received}")
    columns = tuple(to_columns(column) for column in texts)
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(f"All columns must contain the same number of texts. Received: {counts} texts")
    return columns
