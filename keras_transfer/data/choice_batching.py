"""Contexts and their choices in memory: checks, and batches of their pairs."""

import numpy as np

from keras_transfer.core.arrays import as_column, whole_column
from keras_transfer.data.batching import Batches
from keras_transfer.data.part_batching import PARTS
from keras_transfer.data.text_batching import preprocess_texts
from keras_transfer.text.inputs import check_batch_size, to_columns, to_list


def choice_columns(x):
    """Returns contexts as an object array of `str`, and choices as an equally long list of `str` for each context."""
    if not isinstance(x, tuple) or len(x) != 2:
        received = f"a tuple of {len(x)}" if isinstance(x, tuple) else f"{type(x).__name__} {x!r:.100}"
        raise ValueError(
            f"`x` must be a tuple `(contexts, choices)`, a column of texts and a list of lists. Received: {received}"
        )
    contexts, rows = to_columns(list(x[0]) if isinstance(x[0], tuple) else x[0]), _lists(x[1])
    if len(contexts) != len(rows):
        raise ValueError(
            "There must be one list of choices for each context. "
            f"Received: {len(contexts)} contexts, {len(rows)} lists of choices"
        )
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


def choice_batches(contexts, choices, labels, preprocessor, batch_size, shuffle, sample_weight):
    """Returns pairs of contexts and choices, from `choice_columns`, as batches of inputs [batch, choices, length]."""
    count, parts = len(contexts), len(choices[0])
    check_batch_size(preprocessor, batch_size, count, False)
    labels, sample_weight = as_column(labels, "labels", count), as_column(sample_weight, "sample weights", count)
    texts = to_columns([choice for row in choices for choice in row])
    pairs = preprocess_texts((np.repeat(np.asarray(contexts, object), parts), texts), preprocessor)
    inputs = {key: values.reshape(count, parts, *values.shape[1:]) for key, values in pairs.items()}
    options = {"batch_size": batch_size, "shuffle": shuffle}
    return Batches.of(inputs, labels, sample_weight, PARTS, **options)


def _lists(choices):
    choices = whole_column(choices)
    for name in ("to_pylist", "tolist"):  # Arrow has the first, arrays and pandas have the other.
        if hasattr(choices, name):
            return getattr(choices, name)()
    return [choices] if isinstance(choices, (str, bytes)) or not hasattr(choices, "__iter__") else list(choices)
