"""Batches texts in memory by length, so that little padding is needed: single texts, pairs, and several in a row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.core.arrays import as_column, whole_column
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.data.batching import Batches, Contents
from keras_transfer.data.layout import Layout, count_texts, fit_to, preprocess_texts, real_lengths
from keras_transfer.data.planning import MAX_LENGTHS
from keras_transfer.text.inputs import check_batch_size, to_columns, to_list


@expects()
def batches(
    x: Any,
    y: Any = None,
    *,
    preprocessor: Any = None,
    batch_size: int = 32,
    shuffle: bool | None = None,
    seed: int | None = None,
    sample_weight: Any = None,
    lengths: Sequence | None = None,
    drop_remainder: bool = False,
) -> Batches:
    """Turns texts and labels into a dataset for `fit`: preprocessed once, batched by length, shuffled every epoch.

    Without labels, it is a dataset for `predict` of any Keras model: the batches keep the order of the texts.

    The number of batches is known (`len`). Before each epoch, the texts are shuffled and divided into windows of at
    most 50 batches. Each window is sorted by length and cut into batches, and the batches of all windows are shuffled.
    A batch is as long as its longest text. Where Keras compiles a step for each length (on JAX, on a GPU or TPU, and
    in tasks with `jit_compile=True`), there are at most six lengths, chosen to waste the least padding, and one window.

    The last texts form a short batch. If a replica of TensorFlow would get none of them, `fit` of a task repeats some.
    If the preprocessor truncates texts, a warning says how many.

    Args:
        x: List, tuple, NumPy array or pandas column of strings; for pairs, a tuple of two.
        y: List or array [texts] of integers, or of any values that the loss accepts. `None` for prediction.
            Defaults to `None`.
        preprocessor: Callable from texts to a dict of `token_ids`, `padding_mask` and others, each [batch, length]:
            `model.preprocessor`, or one of KerasHub's. Padding must be on the right. A preprocessor may also return
            strings [batch], which are not padded.
        batch_size: Integer. Number of texts in a batch. Defaults to `32`.
        shuffle: Boolean. Whether texts are shuffled before each epoch and batched by length. If `False`, batches keep
            the order of the texts, as `predict` requires, and need more padding. Defaults to `True` for texts with
            labels, `False` for texts without.
        seed: Integer. Seed of the shuffling, for the same batches in every run. Defaults to `None`.
        sample_weight: List or array [texts] of floats. Defaults to `None`.
        lengths: List of at most six sequence lengths to use instead of the chosen ones, such as `[128]` for a step of
            fixed shape. Defaults to `None`.
        drop_remainder: Boolean. Whether the short batch is dropped, so that all batches have `batch_size` rows. Each
            shuffle drops different texts. Defaults to `False`.

    Returns:
        `Batches`.

    Raises:
        ValueError: If there are no texts, if some are not strings, if texts, labels and weights differ in number, if
            the preprocessor pads on the left, or if `lengths` are shorter than the longest text.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "where", "?"])
    train = keras_transfer.text.batches(["Who?", "Where?"], [0, 1], preprocessor=preprocessor, batch_size=2, seed=0)
    ```
    """
    options: dict[str, Any] = {"batch_size": batch_size, "drop_remainder": drop_remainder, "lengths": lengths}
    options |= {"sample_weight": sample_weight, "shuffle": shuffle, "seed": seed}
    return column_batches(to_columns(x), y, preprocessor=preprocessor, **options)


def column_batches(columns, y, *, preprocessor, sample_weight=None, **options):
    """Returns texts, or pairs of texts, from `to_columns` as `Batches`. The arguments are those of `batches`."""
    expect(sample_weight is None or y is not None, "`sample_weight` requires `y`.", y=None)
    kind = "pairs" if isinstance(columns, tuple) else "texts"
    return _batches(columns, kind, y, preprocessor, sample_weight, **options)


def _batches(texts, kind, y, preprocessor, sample_weight=None, width=None, lengths=None, **options):
    """Returns columns of texts as `Batches`. With a width, so many texts of the column are in a row."""
    count = count_texts(texts) // (width or 1)
    check_batch_size(preprocessor, options["batch_size"], count, options.get("drop_remainder", False))
    y, sample_weight = as_column(y, "labels", count), as_column(sample_weight, "sample weights", count)
    inputs = preprocess_texts(texts, preprocessor, width)
    if lengths is not None and "padding_mask" in inputs:
        lengths = sorted(integer(1).check("lengths", length) for length in lengths)
        longest = real_lengths(inputs).max()
        rule = (
            f"`lengths` must contain 1 to {MAX_LENGTHS} lengths, the largest at least that of the longest text, which "
            f"has {longest} tokens."
        )
        expect(1 <= len(lengths) <= MAX_LENGTHS and lengths[-1] >= longest, rule, lengths=lengths)
        inputs = {key: fit_to(ids, lengths[-1]) for key, ids in inputs.items()}
    return Batches.of(inputs, y, sample_weight, Contents(Layout(kind)), lengths=lengths, **options)


@expects()
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
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "drop_remainder": drop_remainder}
    texts = np.stack(columns, axis=1).ravel()
    return _batches(texts, "parts", y, preprocessor, sample_weight, len(columns), seed=seed, **options)


def to_parts(texts):
    """Returns columns of texts as a tuple of object arrays [rows]."""
    rule = "Several texts per row must be a tuple of at least two columns."
    expect(isinstance(texts, tuple) and len(texts) > 1, rule, x=texts)
    columns = tuple(to_columns(column) for column in texts)
    counts = [len(column) for column in columns]
    expect(len(set(counts)) == 1, "All columns must contain the same number of texts.", counts=counts)
    return columns


def choice_columns(x):
    """Returns contexts as an object array of `str`, and choices as an equally long list of `str` for each context."""
    rule = "`x` must be a tuple `(contexts, choices)`, a column of texts and a list of lists."
    expect(isinstance(x, tuple) and len(x) == 2, rule, x=x)
    contexts, rows = to_columns(list(x[0]) if isinstance(x[0], tuple) else x[0]), _lists(x[1])
    rule = "There must be one list of choices for each context."
    expect(len(contexts) == len(rows), rule, contexts=len(contexts), choices=len(rows))
    choices = []
    for index, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__"):
            raise ValueError(f"Choices must be lists of texts. Received: {row!r:.100} at position {index}")
        if len(row) < 2 or len(row) != len(rows[0]):
            expected = "at least two" if len(rows[0]) < 2 else f"the same number of choices, {len(rows[0])}"
            raise ValueError(
                f"Each row must have {expected}. Received: {len(row)} choices, {row!r:.100}, at position {index}"
            )
        try:
            choices.append(to_list(list(row)))
        except ValueError as error:
            raise ValueError(f"Invalid choices at position {index}. {error}") from error
    return contexts, choices


def choice_batches(contexts, choices, y, *, preprocessor, **options):
    """Returns pairs of contexts and choices, from `choice_columns`, as batches of inputs [batch, choices, length]."""
    pairs = np.repeat(contexts, len(choices[0])), to_columns([choice for row in choices for choice in row])
    return _batches(pairs, "parts", y, preprocessor, width=len(choices[0]), **options)


def _lists(choices):
    choices = whole_column(choices)
    for name in ("to_pylist", "tolist"):  # Arrow has the first, arrays and pandas have the other.
        if hasattr(choices, name):
            return getattr(choices, name)()
    return [choices] if isinstance(choices, (str, bytes)) or not hasattr(choices, "__iter__") else list(choices)


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
