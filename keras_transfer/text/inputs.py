"""Recognizes texts and sentences of words in memory, and converts them and their labels to plain columns."""

import numbers
from collections.abc import Mapping

import numpy as np

from keras_transfer.core.arrays import is_lazy, whole_column
from keras_transfer.core.expect import expect, integer
from keras_transfer.core.names import listed


def is_text(x):
    """Returns whether `x` is raw text, or a tuple of two texts or columns for pairs.

    Numbers, dicts and datasets are not text. A column with a missing value counts as text, so that `to_columns` can
    report it.
    """
    if isinstance(x, tuple) and len(x) == 2:
        return is_text(x[0])
    if isinstance(x, (str, bytes)) or _columns_of_table(x) is not None:  # `to_list` asks for a column of a table.
        return True
    x = x[:100] if is_lazy(x) else x
    if isinstance(x, (list, tuple)):
        # Texts with missing values, rows of texts and empty lists count as texts, so that `to_list` reports them.
        rows = [value[0] if isinstance(value, (list, tuple)) and value else value for value in x[:100]]
        if isinstance(x, tuple) and all(isinstance(value, list) and not value for value in x):
            return True
        return not x or any(isinstance(value, (str, bytes)) for value in rows)
    if hasattr(x, "to_pylist"):  # Arrow
        return len(x) == 0 or "string" in str(getattr(x, "type", ""))  # the type of an empty array may be null
    if tuple(getattr(x, "shape", None) or ()) == (0,):  # an array made from an empty list
        return True
    dtype = getattr(x, "dtype", None)
    return str(getattr(dtype, "name", dtype)).startswith(("str", "object", "bytes", "category"))


def _columns_of_table(x):
    """Returns the names of the columns of a table of pandas, Arrow or Hugging Face, and None for anything else."""
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # pandas
        return list(x.columns)
    if isinstance(getattr(x, "column_names", None), list) and hasattr(x, "__len__"):
        return list(x.column_names)
    return None


def to_columns(x):
    """Returns texts in memory as an object array [texts] of `str`, and pairs of texts as a tuple of two such arrays."""
    if not isinstance(x, tuple):
        values = to_list(x)
        column = np.empty(len(values), object)
        column[:] = values
        return column
    check_pair(x)
    if not is_text(x[1]):
        raise ValueError(
            "A tuple must be a pair of texts. Pass labels as a separate argument: `fit(texts, labels)`. "
            f"Received: {type(x[1]).__name__} {x[1]!r:.100} as the second text"
        )
    first, second = to_columns(x[0]), to_columns(x[1])
    if len(first) != len(second):
        raise ValueError(
            "The two parts of a pair must contain the same number of texts. "
            f"Received: {len(first)} and {len(second)} texts"
        )
    return first, second


def check_pair(texts):
    """Raises a `ValueError` if a tuple is not a pair of texts."""
    if len(texts) != 2:
        raise ValueError(
            f"A tuple must be a pair (text_a, text_b). Pass several texts as a list. Received: a tuple of {len(texts)}"
        )


def to_list(texts):
    """Converts a string, or a list, array, table column or eager tensor of strings, to a list of `str`."""
    if isinstance(texts, (str, bytes)):
        values = [texts]
    elif (columns := _columns_of_table(texts)) is not None:
        raise ValueError(
            f"Texts must be a column of a table. Pass `table[{next(iter(columns), 'text')!r}]`, or for pairs "
            f"a tuple of two columns. Received: {type(texts).__name__} with the columns {listed(columns)}"
        )
    elif hasattr(texts, "to_pylist"):  # Arrow
        values = texts.to_pylist()
    else:
        texts = whole_column(texts)
        texts = texts.numpy() if hasattr(texts, "numpy") else texts
        # A mapping would yield its keys, and a two-dimensional array its rows.
        if isinstance(texts, Mapping) or getattr(texts, "ndim", 1) != 1 or not hasattr(texts, "__iter__"):
            raise ValueError(
                "Texts must be a string, or a list, array, table column or tensor of strings (for pairs, a tuple of "
                f"two). Received: {type(texts).__name__} {texts!r:.100}"
            )
        values = list(texts)
    wrong = [index for index, value in enumerate(values) if not isinstance(value, (str, bytes))]
    if wrong:
        first = values[wrong[0]]
        if isinstance(first, Mapping):
            advice = "Pass a list of the texts, such as `[row['text'] for row in rows]`."
        elif isinstance(first, numbers.Number) and first == first:
            advice = "Convert numbers to `str`."
        elif isinstance(first, (tuple, list)) and len(first) == 2 and isinstance(first[1], numbers.Number):
            advice = "Pass texts and labels as two lists: `fit(texts, labels)`."
        else:
            advice = "Remove missing texts or replace them with ''. Pass pairs as a tuple of two columns."
        raise ValueError(
            f"Texts must be strings, but {len(wrong)} of {len(values)} are not, the first at {wrong[:3]}. {advice} "
            f"Received: {[values[index] for index in wrong[:3]]!s:.300}"
        )
    return [_unicode(value) for value in values]


def _unicode(text):
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Texts in bytes must be UTF-8. Decode other encodings to `str` first. Received: {text[:50]!r}"
            ) from error
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"Texts must be Unicode without lone surrogates. Received: {text[:50]!a}")
    return str(text)


def is_sentences(x):
    """Returns whether `x` contains sentences as lists of words: a list or a column of lists."""
    x = x[:100] if is_lazy(x) else x
    if hasattr(x, "to_pylist"):  # Arrow
        return "list" in str(getattr(x, "type", ""))
    kind = str(getattr(x, "dtype", "")).lower()
    if hasattr(x, "row_splits") or kind.startswith("list"):  # TensorFlow's ragged tensors; Arrow's lists in pandas
        return True
    if not isinstance(x, list) and not (hasattr(x, "ndim") and kind.startswith(("object", "<u", "|s"))):
        return False
    return any(isinstance(value, (list, tuple)) or _are_words(value) for value in list(x[:100]))


def _are_words(value):
    return getattr(value, "ndim", 0) == 1 and getattr(getattr(value, "dtype", None), "kind", "") in "OUS"


def to_sentences(sentences):
    """Returns sentences in memory as a list of lists of `str`, their words."""
    sentences = whole_column(sentences)
    for name in ("to_pylist", "to_list"):  # Arrow; ragged tensors and pandas
        sentences = getattr(sentences, name)() if hasattr(sentences, name) else sentences
    result = []
    for index, words in enumerate(sentences):
        if not isinstance(words, (list, tuple)) and not _are_words(words):
            if isinstance(words, str) and any(isinstance(other, (list, tuple)) for other in sentences):
                texts = [place for place, other in enumerate(sentences) if isinstance(other, str)]
                raise ValueError(
                    "The data must be either texts or sentences that are lists of words, not both. Split the texts "
                    f"into words, or pass them separately. Received: texts at the positions {listed(texts)}"
                )
            raise ValueError(f"A sentence must be a list of words. Received: {words!r:.100} at position {index}")
        try:
            result.append(to_list(list(words)))
        except ValueError as error:
            raise ValueError(f"Invalid words in sentence {index}. {error}") from error
    return result


def check_rows_of_batches(batch_size):
    """Raises a `ValueError` if `batch_size` is not a positive integer."""
    integer(1).check("batch_size", batch_size)


def check_batch_size(preprocessor, batch_size, count, drop_remainder):
    """Raises a `ValueError` if there is no preprocessor, or if there would be no batch."""
    rule = "A dataset of texts requires a preprocessor, such as `model.preprocessor`."
    expect(callable(preprocessor), rule, preprocessor=preprocessor)
    check_rows_of_batches(batch_size)
    expect(count > 0, "`texts` must contain at least one text.", texts=[])
    rule = f"`drop_remainder=True` requires at least one full batch of {batch_size} texts."
    if drop_remainder:
        expect(count >= batch_size, rule, texts=count)
