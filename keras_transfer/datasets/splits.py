"""Named splits of a dataset, and labels as positions in the list of their names."""

import math
from collections.abc import Mapping, Sequence

from keras_transfer.core.expect import expect
from keras_transfer.core.names import did_you_mean, listed


class Splits(dict):
    """Named splits of a dataset, in order. `data["train"]` is also `data.train`.

    Args:
        splits: Dict from names to splits, such as `Split`s.
        label_names: List of strings. The names of the classes, in the order of the labels. Defaults to `None`, for
            datasets without classes.

    Raises:
        KeyError, AttributeError: If a split that does not exist is accessed.

    Example:
    ```python
    reviews = keras_transfer.datasets.Split(["What a film!", "What a bore."], [1, 0])
    data = keras_transfer.datasets.Splits({"train": reviews}, ["negative", "positive"])
    data.label_names[data.train.labels[0]]  # "positive"
    ```
    """

    def __init__(self, splits: Mapping, label_names: Sequence[str] | None = None):
        super().__init__(splits)
        self.label_names = label_names

    def __missing__(self, name):
        raise KeyError(self._message(name))

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(self._message(name))

    def __repr__(self):
        names = None if self.label_names is None else listed(self.label_names)
        return f"Splits({', '.join(self)}; label_names={names})"

    def _message(self, name):
        return f"The dataset has no split {name!r}.{did_you_mean(name, self)} Expected one of {list(self)}."


def from_rows(cls, rows):
    """Returns a named tuple of columns, given its class and a list of rows."""
    return cls._make(map(list, zip(*rows, strict=True)) if rows else ([] for _ in cls._fields))


def shown_by_columns(cls):
    """Decorates a class of named tuples of columns, whose `repr` says how many rows they have, and the first one."""
    cls.__repr__ = _columns_repr
    return cls


def _columns_repr(split):
    columns = {name: getattr(split, name) for name in split._fields if getattr(split, name) is not None}
    count = max((len(_first(column)) for column in columns.values()), default=0)
    first = "".join(f"  {name}: {_row(column)!r:.80}\n" for name, column in columns.items() if count)
    return f"{type(split).__name__} of {count:,} rows" + (f". The first one is\n{first.rstrip()}" if first else "")


def _first(column):
    """Returns the first column of a tuple of columns, such as the texts of pairs, or the column itself."""
    return column[0] if isinstance(column, tuple) else column


def _row(column):
    if isinstance(column, tuple):
        return tuple(_row(part) for part in column)
    return next(iter(column), None)


def positions(labels, names, where):
    """Returns the positions of labels in the list of names. Either all labels are names, or all are positions.

    They are names if one of them is, or if one of the names is a number, such as the stars from 1 to 5. `where` returns
    the beginning of an error message for a place in the list.
    """
    places = {str(name): place for place, name in enumerate(names)}
    if not any(str(label) in places for label in labels) and not any(map(_is_number, names)):
        places = {str(place): place for place in range(len(names))}
    for number, label in enumerate(labels):
        if str(label) not in places:
            place = f"{where(number)}: Unknown label.{did_you_mean(label, names)}"
            raise ValueError(f"{place} Expected one of {listed(names)}. Received: {label!r}")
    return [places[str(label)] for label in labels]


def _is_number(name):
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def score(text, low, high, where):
    """Returns a number in a range, given as a string, as a float."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    expect(low <= value <= high, f"Expected a score from {low} to {high}.", text, where=where)
    return value
