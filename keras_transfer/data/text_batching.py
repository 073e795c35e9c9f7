"""Batches texts in memory by length, so that little padding is needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.core.arrays import as_column
from keras_transfer.core.expect import integer
from keras_transfer.data.batching import Batches, Contents, real_lengths
from keras_transfer.data.planning import LENGTH_STEP, MAX_LENGTHS
from keras_transfer.text.inputs import check_batch_size, to_columns
from keras_transfer.text.preprocessor import preprocess
from keras_transfer.text.token_preprocessor import count_truncated, warn_of_truncation


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
    x = to_columns(x)
    count = _count(x)
    check_batch_size(preprocessor, batch_size, count, drop_remainder)
    y, sample_weight = as_column(y, "labels", count), as_column(sample_weight, "sample weights", count)
    if sample_weight is not None and y is None:
        raise ValueError("`sample_weight` requires `y`. Received: y=None")
    kind = "pairs" if isinstance(x, tuple) else "texts"
    inputs = preprocess_texts(x, preprocessor)
    if lengths is not None and "padding_mask" in inputs:
        lengths = sorted(integer(1).check("lengths", length) for length in lengths)
        longest = real_lengths(inputs).max()
        if not 1 <= len(lengths) <= MAX_LENGTHS or lengths[-1] < longest:
            raise ValueError(
                f"`lengths` must contain 1 to {MAX_LENGTHS} lengths, the largest at least that of the longest text, "
                f"which has {longest} tokens. Received: lengths={lengths}"
            )
        inputs = {key: fit_to(ids, lengths[-1]) for key, ids in inputs.items()}
    options: dict[str, Any] = {"lengths": lengths, "drop_remainder": drop_remainder, "seed": seed}
    return Batches.of(inputs, y, sample_weight, Contents(kind), batch_size=batch_size, shuffle=shuffle, **options)


def preprocess_texts(texts, preprocessor, chunk=4096, warn=True):
    """Returns a dict of int32 arrays [texts, length], padded only to the longest text. It may warn of truncation."""
    chunks, truncated = [], 0
    for start in range(0, _count(texts), chunk):
        part = slice(start, start + chunk)
        columns = tuple(t[part].tolist() for t in texts) if isinstance(texts, tuple) else texts[part].tolist()
        outputs = preprocess(preprocessor, columns)
        outputs = {key: _as_array(value) for key, value in outputs.items()}  # [chunk, full length], or strings [chunk]
        _check_padding(outputs, start)
        truncated += count_truncated(preprocessor, columns, outputs) if warn else 0
        longest = max(int(real_lengths(outputs).max()), 1)
        longest = -(-longest // LENGTH_STEP) * LENGTH_STEP
        chunks.append({key: value[:, :longest] if value.ndim > 1 else value for key, value in outputs.items()})
    warn_of_truncation(preprocessor, truncated, _count(texts))
    length = max((chunk["padding_mask"].shape[1] for chunk in chunks if "padding_mask" in chunk), default=0)
    return concatenate(chunks, length)


def _check_padding(outputs, start):
    """Raises a `ValueError` if trimming batches on the right would remove tokens."""
    if "padding_mask" not in outputs:
        padded = [key for key, value in outputs.items() if value.ndim > 1]
        if padded:
            raise ValueError(f"The preprocessor must return a `padding_mask`. Received: only {padded}")
        return
    mask = outputs["padding_mask"]
    wrong = np.flatnonzero((mask[:, 1:] > mask[:, :-1]).any(axis=1))
    if len(wrong):
        received = np.array2string(mask[wrong[0]], threshold=20)
        raise ValueError(
            "The preprocessor must pad texts on the right, so that ones come before zeros in `padding_mask`. "
            f"Received: padding_mask={received} for the text at position {start + wrong[0]}"
        )


def concatenate(chunks, length):
    """Joins dicts of arrays [rows, length, ...] into one dict of arrays [all rows, length, ...]."""
    return {key: np.concatenate([fit_to(chunk[key], length) for chunk in chunks]) for key in chunks[0]}


def _as_array(values):
    values = np.asarray(values)
    return values if values.dtype == object else values.astype("int32")


def fit_to(ids, length, axis=1):
    """Returns ids [texts, length], padded with zeros (which the mask marks as padding) or trimmed of padding."""
    if ids.ndim <= axis:
        return ids
    sizes = [(0, max(length - size, 0) if place == axis else 0) for place, size in enumerate(ids.shape)]
    return np.pad(ids, sizes)[(*[slice(None)] * axis, slice(length))]


def _count(texts):
    return len(texts[0] if isinstance(texts, tuple) else texts)
