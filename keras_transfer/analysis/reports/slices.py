"""Slices of a dataset: rows that have something in common, such as their length or a word."""

import re

import numpy as np

MAX_GROUPS = 50


def slice_rows(texts, definitions, count):
    """Returns the rows of each slice as a dict from names to integer arrays.

    Args:
        texts: List of tuples of one or two strings, or `None`.
        definitions: Dict from names to words, functions or arrays, as for `report`, or `None`.
        count: Integer. Number of rows.
    """
    slices = {} if texts is None else _by_length(texts)
    if not isinstance(definitions, (dict, type(None))):
        raise ValueError(
            "`slices` must be a dict from names to words, functions or arrays. "
            f"Received: {type(definitions).__name__} {definitions!r:.100}"
        )
    for name, definition in (definitions or {}).items():
        values = _values(name, definition, texts)
        if len(values) != count:
            raise ValueError(
                f"`slices[{name!r}]` must have a value for each row. Received: {len(values)} values for {count} rows"
            )
        if all(isinstance(value, (bool, np.bool_)) for value in values):
            _add(slices, name, np.flatnonzero(values))
            continue
        # NaN stands for a missing value of a table.
        missing = [value is None or (isinstance(value, float) and value != value) for value in values]
        values = [None if gone else str(value) for value, gone in zip(values, missing)]
        groups = sorted(set(values) - {None})
        if len(groups) > MAX_GROUPS:
            raise ValueError(
                f"`slices[{name!r}]` must have at most {MAX_GROUPS} different values. Return the name of a group, such "
                f"as 'long' or 'short'. Received: {len(groups)} different values, such as {groups[:3]}"
            )
        for group in groups:
            _add(slices, f"{name}: {group}", np.flatnonzero([value == group for value in values]))
    return slices


def _add(slices, name, rows):
    if name in slices:
        raise ValueError(f"The names of slices must be unique. Received: {name!r} twice")
    slices[name] = rows


def _by_length(texts):
    """Returns three slices with about as many rows each, by the number of words of the texts."""
    lengths = np.array([sum(len(text.split()) for text in row) for row in texts])
    place = np.searchsorted(np.unique(np.quantile(lengths, [1 / 3, 2 / 3], method="lower")), lengths)
    slices = {}
    for number in np.unique(place):
        rows = np.flatnonzero(place == number)
        least, most = lengths[rows].min(), lengths[rows].max()
        slices[f"length {least}" if least == most else f"length {least} to {most}"] = rows
    return slices if len(slices) > 1 else {}


def _values(name, definition, texts):
    """Returns the value of each row: whether it belongs to the slice, or the name of its group."""
    if hasattr(definition, "shape"):
        return np.asarray(definition).tolist()
    words = [definition] if isinstance(definition, str) else definition
    has_words = (
        isinstance(words, (list, tuple, set))
        and words
        and all(isinstance(word, str) and word.strip() for word in words)
    )
    if not has_words and not callable(definition):
        raise ValueError(
            f"`slices[{name!r}]` must be a word, a list of words, a function of the text, or an array with a value for "
            f"each row. Received: {type(definition).__name__} {definition!r:.100}"
        )
    if texts is None:
        raise ValueError(
            f"Words and functions require texts. Pass an array with a value for each row. Received: `slices[{name!r}]`"
        )
    if callable(definition):
        return [definition(*row) for row in texts]
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)
    return [any(pattern.search(text) for text in row) for row in texts]
