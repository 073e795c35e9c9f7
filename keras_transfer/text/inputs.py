"""What counts as raw text, and raw text in memory, in whatever form it comes, as plain columns of strings."""

from collections.abc import Mapping

import numpy as np


def is_text(x):
    """Returns whether `x` is raw text or a pair of it (a tuple of two), and not numbers, a dict or a dataset."""
    if isinstance(x, tuple) and len(x) == 2:
        return is_text(x[0])
    if isinstance(x, (str, bytes)):
        return True
    if isinstance(x, (list, tuple)):
        # Texts with a gap among them, or in rows, are texts with a mistake that `to_list` names; so is an empty list.
        rows = [value[0] if isinstance(value, (list, tuple)) and value else value for value in x[:100]]
        if isinstance(x, tuple) and all(isinstance(value, list) and not value for value in x):
            return True
        return not x or any(isinstance(value, (str, bytes)) for value in rows)
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a whole table, of which `to_list` wants a column
        return True
    if hasattr(x, "to_pylist"):  # Arrow
        return len(x) == 0 or "string" in str(getattr(x, "type", ""))  # the type of an empty array may be null
    if tuple(getattr(x, "shape", None) or ()) == (0,):  # an array made of an empty list
        return True
    dtype = getattr(x, "dtype", None)
    return str(getattr(dtype, "name", dtype)).startswith(("str", "object", "bytes", "category"))


def to_columns(x):
    """Returns texts in memory as a numpy array of `str`, and pairs of texts as a tuple of two such arrays.

    Args:
        x: a str, or a list, array, column of a table or string tensor of them; or a tuple of two such, for pairs.

    Returns:
        An object array [texts], or a tuple of two.

    Raises:
        ValueError: something among them is not a string; the two columns differ in length; a tuple is not a pair.
    """
    if not isinstance(x, tuple):
        values = to_list(x)
        column = np.empty(len(values), object)
        column[:] = values
        return column
    check_pair(x)
    if not is_text(x[1]):
        raise ValueError(
            "a tuple is a pair of texts, and labels are an argument of their own: `fit(texts, labels)`. "
            f"Received: {type(x[1]).__name__} {x[1]!r:.100} as the second text"
        )
    first, second = to_columns(x[0]), to_columns(x[1])
    if len(first) != len(second):
        raise ValueError(f"both parts of a pair need as many texts. Received: {len(first)} and {len(second)} texts")
    return first, second


def check_pair(texts):
    """Raises a ValueError for a tuple that is not a pair of texts."""
    if len(texts) != 2:
        raise ValueError(
            f"a tuple is a pair (text_a, text_b); several texts are a list. Received: a tuple of {len(texts)}"
        )


def to_list(texts):
    """Returns a str, or a list, array, column of a table or eager tensor of texts, as a list of `str`.

    Raises:
        ValueError: `texts` is anything else, or something among them is not a Unicode string.
    """
    if isinstance(texts, (str, bytes)):
        values = [texts]
    elif hasattr(texts, "to_pylist"):  # Arrow
        values = texts.to_pylist()
    else:
        texts = texts.numpy() if hasattr(texts, "numpy") else texts
        # A mapping would give its keys, a two-dimensional array or a table its rows or columns.
        if isinstance(texts, Mapping) or getattr(texts, "ndim", 1) != 1 or not hasattr(texts, "__iter__"):
            raise ValueError(
                "texts must be a str, or a list, an array, a column of a table or a tensor of them "
                f"(a pair: a tuple of two). Received: {type(texts).__name__} {texts!r:.100}"
            )
        values = list(texts)
    wrong = [index for index, value in enumerate(values) if not isinstance(value, (str, bytes))]
    if wrong:
        raise ValueError(
            f"{len(wrong)} of {len(values)} texts are no strings, the first at {wrong[:3]}; leave them out or put '' "
            f"there (pairs are a tuple of two columns). Received: {[values[index] for index in wrong[:3]]}"
        )
    return [_unicode(value) for value in values]


def _unicode(text):
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"texts must be UTF-8: decode them where they are read. Received: {text[:50]!r}"
            ) from error
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"texts must be Unicode, without lone surrogates. Received: {text[:50]!a}")
    return str(text)
