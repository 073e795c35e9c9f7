"""Lists of names of classes: those that occur in labels, and those that a user passes."""

import logging
import unicodedata
from collections.abc import Iterator, Mapping

import numpy as np

from keras_transfer.label_names.columns import as_string, has_names, is_list, is_name, rows_of
from keras_transfer.names import advice_on_label, check_spaces, listed

log = logging.getLogger("keras_transfer")

_FEW = 20  # This many labels may all differ, such as a list of all names.


def names_in(labels):
    """Returns the names of the classes that occur in labels, sorted.

    Args:
        labels: List, array, table column, set or iterator of names, or of lists of names. An array or a table may have
            one column. Integers count as names, in the order of their values.
    """
    if isinstance(labels, Mapping):
        raise ValueError(
            "`labels` must be a column of labels. For a dict from numbers to names, pass "
            f"`label_names=[names[i] for i in range(len(names))]`. Received: {labels!r:.100}"
        )
    if isinstance(labels, (set, frozenset, Iterator)):
        labels = list(labels)
    if len(shape := getattr(labels, "shape", ())) == 2 and shape[1] == 1:
        labels = np.asarray(labels)[:, 0]
    if getattr(labels, "ndim", 1) > 1 and not has_names(labels):
        raise ValueError(
            "`labels` must be a column of labels, or of lists of names. For an array of zeros and ones, pass "
            f"`label_names` or `num_classes`. Received: an array of shape {tuple(labels.shape)}"
        )
    flat = [label for row in rows_of(labels) for label in (row if is_list(row) else [row])]
    if flat and all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in flat):
        names = [str(number) for number in sorted({int(label) for label in flat})]
        _warn_of_many(names, flat)
        return names
    for position, label in enumerate(flat):
        if not is_name(label):
            raise ValueError(
                f"`labels` must be all names or all integers.{advice_on_label(label)} "
                f"Received: {label!r:.100} of type {type(label).__name__} at position {position}"
            )
    names = sorted({as_string(label) for label in flat})
    forms = {}
    for name in names:
        other = forms.setdefault(unicodedata.normalize("NFC", name), name)
        if other != name:
            raise ValueError(
                "Labels must not differ only in their Unicode normalization form. Normalize them with "
                f"`unicodedata.normalize('NFC', label)`. Received: {other!a} and {name!a}"
            )
    check_spaces(names, "`labels`")
    _warn_of_many(names, flat)
    return names


def renamed(before, names):
    """Returns the new names of classes as a list of `str`, or any names unchanged if there were none before.

    Args:
        before: List of strings, the names so far, or `None`.
        names: List of strings.
    """
    if before is None or (isinstance(names, (list, tuple)) and list(names) == list(before)):
        return names
    names = checked_names(names)
    if len(names) != len(before):
        raise ValueError(
            f"`label_names` must be {len(before)} names, one for each class of the model. For other classes, create a "
            f"new head with `from_pretrained(..., label_names=...)`. Received: label_names={listed(names)}"
        )
    return names


def _warn_of_many(names, labels):
    if len(labels) > _FEW and len(names) > 0.9 * len(labels):
        log.warning(
            "%d of %d labels are different, so nearly every text would be a class of its own. Check that `labels` is "
            "the column of labels. The first are %.200s.",
            len(names),
            len(labels),
            names[:3],
        )


def checked_names(names):
    """Returns the names of labels as a list of `str`."""
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


def label_of_accuracy(labels, accuracy):
    """Returns the label that has exactly this accuracy if it is the answer to every row, or `None`.

    Args:
        labels: List or array [rows] of labels. Fewer than 20, or labels that are all the same, say nothing. If they
            have another form, such as lists of labels, the result is `None`.
        accuracy: Float.
    """
    if is_list(next(iter(labels), None)):
        return None
    values, counts = np.unique(labels, return_counts=True)
    if counts.sum() < 20 or len(values) < 2:
        return None
    [found] = np.nonzero(np.abs(counts / counts.sum() - accuracy) < 1e-6)
    return values[found[0]].item() if len(found) else None
