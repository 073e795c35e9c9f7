"""Texts and their labels from tables, and the part that is held out for validation."""

import itertools
import json
import math
import sys

from keras_transfer import datasets
from keras_transfer.core import lines, tables
from keras_transfer.core.names import check_spaces, did_you_mean, listed
from keras_transfer.data import multi_hot, positions_of

FORM = ("separator", "encoding", "no_header", "label_separator")  # Options that say how a table is read.
OPTIONS = ("--text-column", "--label-column")
SEPARATOR = "|"  # Separates the labels of a text in a `.csv` or `.tsv` file by default.
NO_HEADER = " For a file without a header, pass `--no-header`, and numbers from 0 as columns."
FEW_ROWS = 20  # Tables with fewer rows may have a label for each row.
LARGEST = 3.4028234663852886e38  # The largest float32 number.


class Table(tables.Table):
    """A `tables.Table` that has the columns of texts and labels.

    Args:
        columns: List of strings. Columns that the table must have: the text column, and those of labels if needed.
            Without a header, they are numbers from 0.
        separator, encoding: As for `tables.Table`. `separator` may also be `"tab"`.
        only: Boolean. Whether other columns of a Parquet or Arrow file are not read.
    """

    def __init__(self, path, columns, separator=None, encoding=None, no_header=False, only=False):
        self.columns = [int(name) if no_header and str(name).isdecimal() else name for name in columns]
        separator = {"tab": "\t", "\\t": "\t"}.get(separator, separator)
        super().__init__(path, separator, encoding, None if no_header else 0, self.columns if only else None)
        self._check(self.names, path)

    def __iter__(self):
        for number, row in super().__iter__():
            if self.typed:
                self._check(row, f"{self.path}, {self.unit} {number}")
            yield number, row

    def _check(self, names, where):
        for place, column in enumerate(self.columns):
            if column not in names:
                hint = did_you_mean(column, [str(name) for name in names])
                more = "" if hint or self.typed or self.header is None else NO_HEADER
                raise ValueError(
                    f"{where}: There is no column {column!r}.{hint} Name the column "
                    f"with {OPTIONS[min(place, 1)]}.{more} Received: the columns {listed(names)}"
                )


def read_texts(path, text="text", label="label", kind="classification", label_separator=None, **form):
    """Returns `(texts, labels)`, two lists, from a table.

    Args:
        label: String. Name of the column of the labels, or list of strings with a column for each label.
        kind: String. What the labels are: strings (`"classification"`, or `"text"` for targets), lists of strings
            (`"multi-label"`) or floats (`"regression"`).
        label_separator: String. What separates the labels of a text in a file without types. Defaults to `None`, for
            `SEPARATOR`.
    """
    label = [label] if isinstance(label, str) else list(label)
    if text in label:
        raise ValueError(
            f"{path}: The texts and their labels must be in different columns. "
            f"Received: {OPTIONS[0]} {text!r} and {OPTIONS[1]} {' '.join(map(repr, label))}"
        )
    if (len(label) > 1 or label_separator is not None) and kind != "multi-label":
        raise ValueError(
            f"Several labels of a text require a model of several labels (`--task multi-label`). Received: {path} with "
            f"{' '.join(map(repr, label))}"
        )
    convert, expected = LABELS[kind]
    texts, labels, table = [], [], Table(path, [text, *label], **form, only=True)
    (text, *label), separator = table.columns, label_separator or SEPARATOR
    for number, row in table:
        if len(label) > 1:
            value, found = {name: row[name] for name in label}, tables.marked(row, label)
            found, expected = found and [str(name) for name in found], "1 or 0, true or false for each label"
        else:
            value = row[label[0]]
            joined = kind == "multi-label" and not table.typed
            found = convert(tables.split_labels(value, separator) if joined else value)
        if found is None or not (row[text] and isinstance(row[text], str)):
            raise ValueError(
                f"{path}, {table.unit} {number}: Expected a text and {expected}. "
                f"Received: {text}={row[text]!r:.80} and {label[0]}={value!r:.80}"
            )
        texts.append(row[text])
        labels.append(found)
    if not texts:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    if kind == "classification":
        tables.warn_of_joined(labels, path, "`--task multi-label --label-separator {!r}`")
    return texts, labels


def read_column(path, text="text", **form):
    """Returns the texts of a table as a list. The arguments and errors are the same as for `read_texts`."""
    texts, table = [], Table(path, [text], **form, only=True)
    [text] = table.columns
    for number, row in table:
        if not isinstance(row[text], str):
            raise ValueError(f"{path}, {table.unit} {number}: Expected a text. Received: {text}={row[text]!r:.80}")
        texts.append(row[text])
    if not texts:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return texts


def _as_name(value):
    """Returns a label as a string, or None. In JSON, 1 and 1.0 are the same label."""
    if isinstance(value, (int, float)) and abs(value) < math.inf:
        value = json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    return value if isinstance(value, str) and value.strip() else None


def _as_names(value):
    """Returns labels as a list of strings, or None."""
    names = [_as_name(each) for each in value] if isinstance(value, list) else [None]
    return None if None in names else names


def _as_number(value):
    """Returns a label as a float, or None if it is infinite in float32."""
    if isinstance(value, str):
        value = float(value) if lines.NUMBER.fullmatch(value) else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    return float(value) if is_number else None


LABELS = {
    "classification": (_as_name, "a label"),
    "multi-label": (_as_names, "a list of labels"),
    "regression": (_as_number, "a number"),
    "text": (_as_name, "a target"),
}


def read_parts(data, validation=None, test=None, text="text", label="label", task="classification", **form):
    """Returns `({"train": (texts, labels), ...}, label names)` from the tables of the parts that are given.

    Labels are those of `read_texts`: names for the task `"classification"`, lists of names for `"multi-label"`, and
    floats for `"regression"`. The label names are sorted, or None for floats.
    """
    paths = {"train": data, "validation": validation, "test": test}
    parts = {name: read_texts(path, text, label, task, **form) for name, path in paths.items() if path is not None}
    if task == "regression":
        return parts, None
    several = task == "multi-label"
    occurring = {name: _occurring(labels) for name, (_, labels) in parts.items()}
    names = sorted(occurring["train"])
    if len(names) < 2:
        raise ValueError(f"{data}: Expected at least two labels. Received: {names}")
    check_spaces(names, data)
    rows = len(parts["train"][0])
    if not several and rows >= FEW_ROWS and len(names) > rows / 2:
        print(
            f"keras-transfer: warning: {data} has {len(names):,} different labels in {rows:,} rows. "
            f"Is {label!r} the column of the labels? The first ones are {listed(names, 3)}",
            file=sys.stderr,
        )
    for name, found in occurring.items():
        if unknown := sorted(found - set(names)):
            raise ValueError(
                f"{paths[name]}: Labels must occur in the training data. Expected some of {listed(names)}. "
                f"Received: {listed(unknown)}"
            )
    return parts, names


def with_validation(parts, label_names):
    """Returns the parts of the data with validation data, by default a fifth of the training data.

    Logs a warning if no text of a label remains for training.
    """
    if "validation" in parts:
        return parts
    train, held_out = datasets.hold_out(parts["train"])
    if missing := [name for name in label_names or () if name not in _occurring(train[1])]:
        lines.log.warning(
            "All texts with the labels %s are held out for validation. Pass --validation-data to choose these texts.",
            listed(missing),
        )
    return {**parts, "train": train, "validation": held_out}


def as_numbers(labels, label_names):
    """Returns names as positions, lists of names as a one or a zero for each label name, and floats unchanged."""
    if label_names is None:
        return labels
    return (multi_hot if isinstance(labels[0], list) else positions_of)(labels, label_names).astype(int).tolist()


def _occurring(labels):
    """Returns the set of the names in labels, which are names or lists of names."""
    return set(itertools.chain(*labels) if isinstance(labels[0], list) else labels)
