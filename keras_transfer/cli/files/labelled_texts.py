"""Reads texts and their labels from a table."""

import itertools
import json
import math
import pathlib
import sys

from keras_transfer import lines
from keras_transfer.names import check_spaces, did_you_mean, listed

OPTIONS = ("--text-column", "--label-column")
FORMATS = (".csv", ".tsv", ".jsonl")
SEPARATOR = "|"  # Separates the labels of a text in a `.csv` or `.tsv` file.
FEW_ROWS = 20  # Tables with fewer rows may have a label for each row.
LARGEST = 3.4028234663852886e38  # The largest float32 number.


class Table:
    """The rows of a table, which are read one at a time, so that a table may be larger than memory.

    Iterating yields `(number of the line, row)`, where the row is a dict from columns to values.

    Args:
        path: Path of a `.csv`, `.tsv` or `.jsonl` (JSON Lines) file in UTF-8. The first line of a `.csv` or `.tsv` file
            has the names of the columns. Blank lines are empty texts in a table with one column. In others, they are
            skipped, but are an error in a `.tsv` file.
        columns: List of strings. Columns that the table must have: the text column, and the label column if needed.

    Attributes:
        names: List of strings. The columns of the table, or of its first row in a `.jsonl` file.
        fraction: Float. Fraction of the file that was read.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file has a different format, lacks a column or has two of the same name, or, while reading,
            if a row is damaged or has a different number of fields.
    """

    def __init__(self, path, columns):
        self.path, self.columns, self.fraction = pathlib.Path(path), columns, 0.0
        self.kind = self.path.suffix.lower()
        if self.kind not in FORMATS:
            raise ValueError(f"The table must be a .csv, .tsv or .jsonl file. Received: {self.path}")
        if not self.path.is_file():
            raise FileNotFoundError(f"The table does not exist. Received: {self.path}")
        first = next(iter(self), None)
        if self.kind == ".jsonl":
            self.names = [] if first is None else list(first[1])

    def __iter__(self):
        size = max(self.path.stat().st_size, 1)
        with lines.open_binary(self.path) as file:
            read = self._objects if self.kind == ".jsonl" else self._rows
            for row in read(lines.decode_lines(file, self.path)):
                self.fraction = min(file.tell() / size, 1.0)
                yield row

    def _rows(self, content):
        rows = lines.split_rows(content, self.path)
        _, self.names = next(rows, (0, []))
        self._check(self.names, self.path)
        lines.check_names(self.path, self.names)
        for number, fields in lines.checked_rows(self.path, self.names, rows):
            yield number, dict(zip(self.names, fields))

    def _objects(self, content):
        for number, row in lines.json_objects(content, self.path):
            self._check(row, f"{self.path}, line {number}")
            yield number, row

    def _check(self, names, where):
        for column, option in zip(self.columns, OPTIONS):
            if column not in names:
                raise ValueError(
                    f"{where}: There is no column {column!r}.{did_you_mean(column, names)} Name the column "
                    f"with {option}. Received: the columns {listed(names)}"
                )


def read_texts(path, text="text", label="label", kind="classification"):
    """Returns `(texts, labels)`, two lists, from a table.

    Args:
        path: As for `Table`.
        text, label: Strings. Names of the columns. Default to `"text"` and `"label"`.
        kind: String. What the labels are: strings (`"classification"`), lists of strings (`"multi-label"`, which a
            `.csv` or `.tsv` file joins with `SEPARATOR`) or floats (`"regression"`). Defaults to `"classification"`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file has a different format, lacks a column, has a row without text or label, or has no rows,
            or if both columns are the same.
    """
    if text == label:
        raise ValueError(
            f"{path}: The texts and their labels must be in different columns. "
            f"Received: {OPTIONS[0]} {text!r} and {OPTIONS[1]} {label!r}"
        )
    convert, expected = LABELS[kind]
    texts, labels, table = [], [], Table(path, [text, label])
    joined = kind == "multi-label" and table.kind != ".jsonl"
    for number, row in table:
        found = convert(_separated(row[label]) if joined else row[label])
        if found is None or not (row[text] and isinstance(row[text], str)):
            raise ValueError(
                f"{path}, line {number}: Expected a text and {expected}. "
                f"Received: {text}={row[text]!r:.80} and {label}={row[label]!r:.80}"
            )
        texts.append(row[text])
        labels.append(found)
    if not texts:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return texts, labels


def read_column(path, text="text"):
    """Returns the texts of a table as a list. The arguments and errors are the same as for `read_texts`."""
    texts, table = [], Table(path, [text])
    for number, row in table:
        if not isinstance(row[text], str):
            raise ValueError(f"{path}, line {number}: Expected a text. Received: {text}={row[text]!r:.80}")
        texts.append(row[text])
    if not texts:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return texts


def _as_name(value):
    """Returns a label as a string, or None. In JSON, 1 and 1.0 are the same label."""
    if isinstance(value, (int, float)) and abs(value) < math.inf:
        value = json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    return value if isinstance(value, str) and value.strip() else None


def _separated(value):
    """Returns the labels of a `.csv` or `.tsv` file as a list, as `datasets.read_table` does."""
    return [name.strip() for name in value.split(SEPARATOR)] if value.strip() else []


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
}


def read_parts(data, validation=None, test=None, text="text", label="label", task="classification"):
    """Returns `({"train": (texts, labels), ...}, label names)` from the tables of the parts that are given.

    For the task `"classification"`, labels are integers, the places of their names in the sorted list of label names.
    For `"multi-label"`, they are lists with a one for each label of the text, and a zero for each other label name. For
    `"regression"`, they are floats, and the label names are None.

    Raises:
        FileNotFoundError, ValueError: As for `read_texts`. ValueError also if there are fewer than two labels, if
            two differ only in the spaces around them, or if other parts have labels that the training data lack.
    """
    paths = {"train": data, "validation": validation, "test": test}
    parts = {name: read_texts(path, text, label, task) for name, path in paths.items() if path is not None}
    if task == "regression":
        return parts, None
    several = task == "multi-label"
    occurring = {name: set(itertools.chain(*labels) if several else labels) for name, (_, labels) in parts.items()}
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
    places = {name: place for place, name in enumerate(names)}

    def encode(label):
        return [int(name in label) for name in names] if several else places[label]

    return {part: (texts, [encode(label) for label in labels]) for part, (texts, labels) in parts.items()}, names
