"""Reads labelled texts from a table, in a file that `command.py` runs without importing the package."""

import csv
import pathlib

FORMATS = {
    ".csv": {"delimiter": ","},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},  # as in GLUE, where quotes are a part of the text
}


def read_texts(path, text="text", label="label"):
    """Returns `(texts, labels)`, two lists of strings, from a table whose first line has the names of the columns.

    Args:
        path: Path of a `.csv` or `.tsv` file in UTF-8.
        text, label: Strings. Names of the columns. Default to `"text"` and `"label"`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file has another format, lacks a column, has a row without text or label, or has no rows.
    """
    path = pathlib.Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"The table must be a .csv or .tsv file. Received: {path}")
    if not path.is_file():
        raise FileNotFoundError(f"The table does not exist. Received: {path}")
    texts, labels = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, **FORMATS[path.suffix.lower()])
            for name in (text, label):
                if name not in (rows.fieldnames or ()):
                    raise ValueError(
                        f"{path}: Expected the columns {text!r} and {label!r}. Received: {list(rows.fieldnames or ())}"
                    )
            for row in rows:
                if not (row[text] and row[label]):
                    raise ValueError(
                        f"{path}, line {rows.line_num}: Expected a text and a label. "
                        f"Received: {text}={row[text]!r} and {label}={row[label]!r}"
                    )
                texts.append(row[text])
                labels.append(row[label])
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: Expected a table in UTF-8. Received: {error}") from None
    if not texts:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return texts, labels


def read_parts(data, validation=None, test=None, text="text", label="label"):
    """Returns `({"train": (texts, labels), ...}, label names)` from the tables of the parts that are given.

    Labels are integers, the places of their names in the sorted list of label names.

    Raises:
        FileNotFoundError, ValueError: As for `read_texts`. ValueError also if there are fewer than two labels, or if
            other parts have labels that the training data lack.
    """
    paths = {"train": data, "validation": validation, "test": test}
    parts = {name: read_texts(path, text, label) for name, path in paths.items() if path is not None}
    names = sorted(set(parts["train"][1]))
    if len(names) < 2:
        raise ValueError(f"{data}: Expected at least two labels. Received: {names}")
    for name, (_, labels) in parts.items():
        if unknown := sorted(set(labels) - set(names)):
            raise ValueError(
                f"{paths[name]}: Labels must occur in the training data. Expected some of {names}. Received: {unknown}"
            )
    places = {name: place for place, name in enumerate(names)}
    return {part: (texts, [places[name] for name in labels]) for part, (texts, labels) in parts.items()}, names
