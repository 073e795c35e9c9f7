"""Labels as names of classes: which names occur, names as positions and back, and numbers that are names."""

import logging
import math
import unicodedata
from collections.abc import Iterator, Mapping

import numpy as np
from keras import ops

from keras_transfer.core.arrays import check_weights, is_lazy, to_array, whole_column
from keras_transfer.core.expect import expect
from keras_transfer.core.names import advice_on_label, check_spaces, did_you_mean, listed

log = logging.getLogger("keras_transfer")
_FEW = 20  # This many labels may all differ, such as a list of all names.
_BOOLEANS = {"false": False, "true": True}


def names_in(labels):
    """Returns the names of the classes that occur in labels, sorted.

    Labels are names, or lists of names, in any form: an array, a table with one column, a set or an iterator. Integers
    count as names, in the order of their values.
    """
    rule = (
        "`labels` must be a column of labels. For a dict from numbers to names, pass "
        "`label_names=[names[i] for i in range(len(names))]`."
    )
    expect(not isinstance(labels, Mapping), rule, labels=labels)
    if isinstance(labels, (set, frozenset, Iterator)):
        labels = list(labels)
    if len(shape := getattr(labels, "shape", ())) == 2 and shape[1] == 1:
        labels = np.asarray(labels)[:, 0]
    rule = (
        "`labels` must be a column of labels, or of lists of names. For an array of zeros and ones, pass `label_names` "
        "or `num_classes`."
    )
    is_table = getattr(labels, "ndim", 1) > 1 and not has_names(labels)
    expect(not is_table, rule, shape=getattr(labels, "shape", None))
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
    _check_forms(names, "Labels")
    check_spaces(names, "`labels`")
    _warn_of_many(names, flat)
    return names


def renamed(before, names):
    """Returns the new names of classes as a list of `str`, or any names unchanged if there were none before."""
    if before is None or (isinstance(names, (list, tuple)) and list(names) == list(before)):
        return names
    names = checked_names(names)
    rule = (
        f"`label_names` must be {len(before)} names, one for each class of the model. For other classes, create a new "
        "head with `from_pretrained(..., label_names=...)`."
    )
    expect(len(names) == len(before), rule, label_names=names)
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
    advice = " For a dict, pass `[names[i] for i in range(len(names))]`." if isinstance(names, Mapping) else ""
    rule = f"`label_names` must be a list of at least two different names.{advice}"
    expect(strings and len(set(names)) == len(names) > 1, rule, label_names=names)
    _check_forms(names, "`label_names`")
    return [str(name) for name in names]


def _check_forms(names, what):
    """Raises a `ValueError` if two names have the same characters in different Unicode normalization forms."""
    forms = {}
    for index, name in enumerate(names):
        other = forms.setdefault(unicodedata.normalize("NFC", name), index)
        if other != index:
            raise ValueError(
                f"{what} must differ by more than their Unicode form. Bring labels to one form, such as with "
                "`unicodedata.normalize('NFC', label)`. "
                f"Received: {names[other]!a} and {name!a}"
            )


def label_of_accuracy(labels, accuracy):
    """Returns the label that has exactly this accuracy if it is the answer to every row, or `None`.

    Fewer than 20 labels, or labels that are all the same, say nothing. Lists of labels have no such label.
    """
    if is_list(next(iter(labels), None)):
        return None
    values, counts = np.unique(labels, return_counts=True)
    if counts.sum() < 20 or len(values) < 2:
        return None
    [found] = np.nonzero(np.abs(counts / counts.sum() - accuracy) < 1e-6)
    return values[found[0]].item() if len(found) else None


def whole_labels(labels, names=None):
    """Returns a column of labels of a Hugging Face `Dataset` as a list or an array, and any other labels unchanged.

    Its `ClassLabel` says which name each number stands for. If these are the names of the classes, perhaps in another
    order or case, or some of them, the numbers become names. Otherwise, they are positions, and a warning has both.
    """
    if not is_lazy(labels):
        return labels
    values, kind = whole_column(labels), labels.features
    found = getattr(getattr(kind, "feature", kind), "names", None)  # A list has a `feature`.
    if found is None or names is None or found == [str(place) for place in range(len(found))]:
        return values
    ours = {name.casefold(): name for name in names}
    theirs = {name.casefold() for name in found}
    clear = len(ours) == len(names) and len(theirs) == len(found)
    if not clear or not (theirs <= ours.keys() or theirs >= ours.keys()):
        log.warning("The labels are positions in `label_names`: %s and %s are other names.", found, list(names))
        return values
    name_of = {number: ours.get(name.casefold(), name) for number, name in enumerate(found)}

    def named(row):
        return [named(each) for each in row] if is_list(row) else name_of.get(row, row)

    return named(values if isinstance(values, list) else ops.convert_to_numpy(values).tolist())


def has_names(labels):
    """Returns whether labels in memory are names, or lists of names."""
    kind = getattr(getattr(labels, "dtype", None), "kind", "O")
    numbers = kind in "biuf" or (ops.is_tensor(labels) and "string" not in str(labels.dtype))
    if numbers or getattr(labels, "ndim", 1) == 0 or not hasattr(labels, "__iter__"):
        return False
    rows = rows_of(labels)
    return any(is_name(row) or (is_list(row) and any(map(is_name, row))) for row in rows)


def are_empty(labels):
    """Returns whether labels in memory are one or more lists that are all empty."""
    return (
        isinstance(labels, (list, tuple)) and len(labels) > 0 and all(is_list(row) and not len(row) for row in labels)
    )


def rows_of(labels):
    """Returns the labels of the rows of a list, an array or a table column, as a list or tuple."""
    if hasattr(labels, "to_pylist"):  # It is a column of an Arrow table.
        return labels.to_pylist()
    labels = whole_column(labels)
    if isinstance(labels, (list, tuple)):
        return labels
    values = np.asarray(labels)
    expect(values.ndim > 0, "Labels must be a list, an array or a table column.", labels=labels)
    return list(values)


def is_list(row):
    """Returns whether the label of a row is a collection of labels."""
    return isinstance(row, (list, tuple, set, frozenset, np.ndarray))


def is_name(label):
    """Returns whether a label is a name, a string or the bytes of one."""
    return isinstance(label, (str, bytes))


def as_string(label):
    """Returns a label as a string. Bytes are UTF-8."""
    return label.decode("utf-8") if isinstance(label, bytes) else str(label)


def as_positions(labels, names):
    """Returns an array of numbers that are all names, or all positions, as positions."""
    places = _places(names, labels.dtype.kind == "b")
    if _are_places(places) or not labels.size:
        return labels
    found = np.unique(labels).tolist()
    are_names = all(value in places for value in found)
    are_places = labels.dtype.kind != "b" and all(0 <= value < len(names) and value % 1 == 0 for value in found)
    if are_names and not (are_places and any(places[value] != value for value in found)):
        flat = [places[value] for value in labels.ravel().tolist()]
        return np.array(flat, "int32").reshape(labels.shape)
    if are_names:
        raise ValueError(
            f"Labels must not be numbers that are both names in `label_names`, {listed(names)}, and positions of "
            "other names. Pass the names as strings, `[str(label) for label in labels]`, or, for positions, "
            f"`[model.label_names[label] for label in labels]`. Received: {labels.ravel()[0]} at position 0"
        )
    if are_places:
        return labels
    known = places if any(value in places for value in found) else range(len(names))
    [wrong] = np.flatnonzero([value not in known for value in labels.ravel().tolist()])[:1]
    raise ValueError(
        f"Labels that are numbers must all be names in `label_names`, {listed(names)}, or all be positions, from 0 "
        f"to {len(names) - 1}. Received: {labels.ravel()[wrong]} at position {wrong}"
    )


def _are_places(places):
    """Returns whether no name is a number, or each one that is a number is its own position."""
    return all(value == place for value, place in places.items())


def _places(names, booleans):
    """Returns a dict from the numbers or booleans among the names to their positions."""
    lower = {name.lower(): place for place, name in enumerate(names)}
    if booleans and lower.keys() == _BOOLEANS.keys():
        return {_BOOLEANS[name]: place for name, place in lower.items()}
    numbers = {}
    for place, name in enumerate(names):
        try:
            value = float(name)
        except ValueError:  # This name is a word.
            continue
        if math.isfinite(value):
            numbers.setdefault(value, place)
    rule = (
        f"Labels must not be booleans, which are not among `label_names`, {listed(names)}. Pass the names as strings, "
        "or positions as integers."
    )
    if booleans:
        expect({0.0, 1.0} <= numbers.keys(), rule, dtype="bool")
    return numbers


def keys_as_positions(keys, names):
    """Returns the keys of `class_weight`, names or numbers, as a list in which names are positions.

    Numbers are read as `as_positions` reads them. Keys that are neither are returned unchanged.
    """
    places, keys = {name: place for place, name in enumerate(names)}, list(keys)
    numbers = [key for key in keys if isinstance(key, (int, float, np.number)) and not isinstance(key, bool)]
    if numbers:
        try:
            places |= dict(zip(numbers, as_positions(np.array(numbers), names).tolist()))
        except ValueError as error:
            raise ValueError(f"Invalid keys of `class_weight`. Pass names of classes as strings. {error}") from None
    return [places.get(key, key) for key in keys]


def positions_of(labels, names, unnamed=""):
    """Returns the positions of names as an int32 array, or `labels` unchanged if they are positions already.

    `unnamed` is a sentence of the error message: what to do if the names are only numbers.
    """
    places = {name: place for place, name in enumerate(names)}
    return np.array([_place(label, places, index, unnamed) for index, label in enumerate(rows_of(labels))], "int32")


def multi_hot(labels, names, unnamed=""):
    """Returns lists of names, which may be empty, as a float32 array [texts, classes] of zeros and ones."""
    rows, places = rows_of(labels), {name: place for place, name in enumerate(names)}
    hot = np.zeros((len(rows), len(names)), "float32")
    for index, row in enumerate(rows):
        if not is_list(row):
            raise ValueError(f"Labels must be lists of names. Received: {row!r:.100} at position {index}")
        hot[index, [_place(label, places, index, unnamed) for label in row]] = 1
    return hot


def _place(label, places, index, unnamed):
    place = places.get(as_string(label)) if is_name(label) else None
    if place is None:
        raise ValueError(
            f"Labels must be names in `label_names`, {listed(places)}.{_advice(label, places, unnamed)} "
            f"Received: {label!r:.100} at position {index}"
        )
    return place


def _advice(label, places, unnamed):
    """Returns what to do about an unknown name, as the next sentence of an error message, or an empty string."""
    if is_list(label):
        return " For lists of names, create the classifier with `multi_label=True`."
    if not is_name(label):
        return ""
    label = as_string(label)
    for name in places:
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", label):
            return (
                f" {name!a} has the same characters in another Unicode normalization form. Convert labels and names "
                "with `unicodedata.normalize('NFC', name)`."
            )
    if unnamed and list(places) == [str(place) for place in range(len(places))]:
        return unnamed
    return did_you_mean(label, places)


def positions_of_numbers(labels, names):
    """Returns labels in memory as positions if they are numbers that are names, and any other labels unchanged."""
    values = _column_of_numbers(labels)
    positions = None if values is None else as_positions(values, names)
    return labels if positions is values else positions


def _column_of_numbers(labels):
    """Returns labels as an array if they are one number or boolean for each text, or None."""
    try:
        values = to_array(labels)
    except ValueError:  # Rows have different lengths.
        return None
    is_column = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    return values if is_column and values.dtype.kind in "biuf" else None


def in_order_of_names(labels, names):
    """Returns a table with a column for each class as an array in the order of the names, and other labels unchanged.

    A table with one column of labels is returned as this column, and a column of a Hugging Face `Dataset` as
    `whole_labels` returns it.
    """
    rule = "Labels must be a list, an array or a table, with one value for each text."
    expect(not isinstance(labels, Mapping), rule, labels=labels)
    labels = whole_labels(labels, names)
    columns = getattr(labels, "column_names", getattr(labels, "columns", None))  # Arrow has the first.
    if columns is None or callable(columns):
        return labels
    if len(columns) == 1:
        return np.asarray(labels)[:, 0]
    columns, numbers = [str(column) for column in columns], [str(place) for place in range(len(names))]
    if columns == list(names) or numbers in (columns, list(names)):
        return labels
    rule = f"The columns of a table of labels must be the names in `label_names`, {listed(names)}."
    expect(sorted(columns) == sorted(names), rule, columns=columns)
    return np.asarray(labels)[:, [columns.index(name) for name in names]]


def check_not_positions(labels, names):
    """Raises a `ValueError` if lists may be positions of two classes, or zeros and ones, such as `[[0, 1], [1, 0]]`."""
    rule = (
        "Labels must not be lists that could be positions as well as zeros and ones. Pass lists of names, or zeros and "
        "ones as an array, `np.array(labels)`."
    )
    is_list = len(names) == 2 and isinstance(labels, (list, tuple)) and len(labels) > 0
    if is_list:
        expect(not all(map(_may_be_positions, labels)), rule, labels=labels)


def _may_be_positions(row):
    is_pair = isinstance(row, (list, tuple)) and list(row) in ([0, 1], [1, 0])
    return is_pair and all(isinstance(value, int) and not isinstance(value, bool) for value in row)


def label_ids(sentences, labels, names=None):
    """Returns the labels of all words, integers or names of the list, as one integer array."""
    labels = whole_labels(labels, names)
    labels = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    rule = "Labels must contain one list for each sentence."
    expect(len(labels) == len(sentences), rule, labels=len(labels), sentences=len(sentences))
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
            number = named.get(tag, tag) if is_integer else known.get(as_string(tag)) if is_name(tag) else None
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


def weights_of_words(weights, names, ids):
    """Returns the weight of each word [words]."""
    by_id = dict(zip(keys_as_positions(weights or {}, names or ()), (weights or {}).values()))
    wrong = [label for label in by_id if isinstance(label, str) or (names and label not in range(len(names)))]
    expected = listed(names) if names else "integers (names require `label_names`)"
    expect(not wrong, f"The keys of `class_weight` must be labels: {expected}.", class_weight=wrong)
    check_weights(np.array(list(by_id.values())), "class_weight")
    return np.array([by_id.get(label, 1.0) for label in ids.tolist()], "float32")
