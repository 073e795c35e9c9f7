"""Named splits of a dataset, and labels as positions in the list of their names."""

import difflib
import math
from numbers import Integral


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

    def __init__(self, splits, label_names=None):
        super().__init__(splits)
        self.label_names = label_names

    def __missing__(self, name):
        raise KeyError(self._message(name))

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(self._message(name))

    def __repr__(self):
        return f"Splits({', '.join(self)}; label_names={self.label_names})"

    def _message(self, name):
        return f"The dataset has no split {name!r}.{did_you_mean(name, self)} Expected one of {list(self)}."


def did_you_mean(name, names):
    """Returns `" Did you mean 'label'?"` with the closest of the names, or an empty string."""
    lower = {str(each).lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return f" Did you mean {lower[close[0]]!r}?" if close else ""


def look_up(name, names, what):
    """Returns the one of the names that equals `name`, except for case, hyphens and underscores.

    Raises:
        ValueError: If there is none. `what` says what the name is of.
    """
    found = [each for each in names if _plain(each) == _plain(name)]
    if not found:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, names)} Expected one of {list(names)}. Received: {name!r}"
        )
    return found[0]


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")


def position(label, names, where):
    """Returns the position of a label, which is a name or a position, in the list of label names.

    Raises:
        ValueError: If the label is unknown. `where` is the beginning of the message.
    """
    if label in names:
        return names.index(label)
    label = int(label) if isinstance(label, str) and label.isdecimal() else label
    if isinstance(label, Integral) and 0 <= label < len(names):
        return int(label)
    raise ValueError(
        f"{where}: Unknown label.{did_you_mean(label, names)} Expected one of {list(names)}. Received: {label!r}"
    )


def score(text, low, high, where):
    """Returns a number in a range, given as a string, as a float.

    Raises:
        ValueError: If the string is not such a number. `where` is the beginning of the message.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ValueError(f"{where}: Expected a score from {low} to {high}. Received: {text!r}")
    return value
