"""Texts and labels from any table, by the names of its columns: files, pandas, Hugging Face and TensorFlow datasets."""

import collections
import math
import numbers
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_transfer.arrow_files import SUFFIXES, column_names, record_batches
from keras_transfer.datasets.base import (
    NUMBER,
    Split,
    Splits,
    positions,
    read_json_lines,
    read_records,
    shorten,
)
from keras_transfer.names import check_spaces, did_you_mean

FORMATS = (".csv", ".tsv", ".jsonl", ".json", *SUFFIXES)


def read_table(
    source: Any,
    text_column: str,
    *,
    label_column: str | None = None,
    pair_column: str | None = None,
    label_names: Sequence[str] | None = None,
    label_separator: str | None = None,
) -> Split | Splits:
    """Reads texts and labels from a table, by the names of its columns.

    Labels are returned as in the table: names, numbers, or lists of names for several labels. Booleans are the names
    `"False"` and `"True"`, in JSON Lines `"false"` and `"true"`. A CSV file has no types: its labels are integers or
    floats if all of them are numbers, and names otherwise. A mix of numbers and names is an error. With `label_names`,
    labels become positions. Lists of labels become lists of names, which tasks with `multi_label=True` accept. They are
    not changed if all of them have a zero or a one for each name.

    Args:
        source: One of the following:
            - Path of a `.csv`, `.tsv`, `.jsonl` or `.json` (JSON Lines) file in UTF-8, or a compressed one (`.csv.gz`
              and so on). A `.tsv` file has no quotes, as in GLUE.
            - Path of a `.parquet` file, or of an `.arrow` file (Arrow IPC, as a file or a stream).
            - A pandas `DataFrame`, a pyarrow `Table`, or a Hugging Face `Dataset`.
            - A `tf.data.Dataset` of dicts, such as `tfds.load(name, split="train")`, or another iterable of dicts.
            - A dict of such sources: the splits by name. A Hugging Face `DatasetDict` and `tfds.load(name)` are dicts.
        text_column: String. Column of the texts.
        label_column: String. Column of the labels. Defaults to `None`, for texts without labels. A Hugging Face
            `ClassLabel` is read as names, and ignored if the whole column is -1.
        pair_column: String. Column of the second texts of pairs. Defaults to `None`.
        label_names: List of strings. Names of the labels in order. Either all labels of a table are names, or all are
            positions. They are names if one of the names is a number. Defaults to `None`.
        label_separator: String. Separator of the labels of a text in a CSV or TSV file, such as `"|"`. Each text then
            has a list of labels, which may be empty, without the spaces around them. Defaults to `None`, for one label
            per text.

    Returns:
        A `Split`, or `Splits` for a dict. Their `label_names` are those given, those of a `ClassLabel`, or the sorted
        names of all splits, and `None` for numbers.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a column is missing or occurs twice, if a row has another number of fields, if a text is missing
            or not a string, if labels are missing, unknown, of mixed types (also in different splits) or differ only in
            spaces, if they are the column of the texts, if `label_names` is not a list of different names, if the
            splits have different names in their `ClassLabel`s, if there are no rows, if `label_separator` is used
            without `label_column` or with files other than CSV and TSV files, or if the file is cut or has another
            format.

    Example:
    ```python
    with open("reviews.csv", "w") as file:
        file.write('review,sentiment\\n"What a film, really!",good\\nA bore.,bad\\n')
    texts, labels = keras_transfer.datasets.read_table("reviews.csv", "review", label_column="sentiment")
    data = keras_transfer.datasets.read_table({"train": "reviews.csv"}, "review", label_column="sentiment")
    data.label_names  # ["bad", "good"]
    ```
    """
    columns = {"text_column": text_column, "pair_column": pair_column, "label_column": label_column}
    columns = {argument: name for argument, name in columns.items() if name is not None}
    if label_column is not None and label_column in (text_column, pair_column):
        raise ValueError(
            "`label_column` must be another column than that of the texts. "
            f"Received: text_column={text_column!r}, pair_column={pair_column!r}, label_column={label_column!r}"
        )
    if label_names is not None:
        _check_names(label_names)
    if label_separator is not None:
        _check_separator(label_separator, label_column, source.values() if isinstance(source, Mapping) else [source])
    if not isinstance(source, Mapping):
        return _read(source, columns, label_names, label_separator)[0]
    splits = {name: _read(each, columns, label_names, label_separator, f"{name}: ") for name, each in source.items()}
    if label_names is None:
        return Splits(*_with_one_type(splits))
    return Splits({name: split for name, (split, _) in splits.items()}, list(label_names))


def _with_one_type(splits):
    """Returns `(splits, label names or None)`. Integers become floats if another split has floats.

    Raises:
        ValueError: If the labels of a split have a different type from the first split's, or another `ClassLabel`.
    """
    types = {name: class_names or _type(split.labels) for name, (split, class_names) in splits.items()}
    types = {name: each for name, each in types.items() if each}
    if not types:
        return {name: split for name, (split, _) in splits.items()}, None
    first = next(iter(types))
    for name, each in types.items():
        if each != types[first]:
            raise ValueError(
                f"{name}: The labels of all splits must have one type. Pass `label_names` if they mean the same. "
                f"Expected {types[first]}, as in {first!r}. Received: {each}"
            )
    splits = {name: split for name, (split, _) in splits.items()}
    found = [each for split in splits.values() for label in split.labels or () for each in _as_list(label)]
    if isinstance(types[first], list):  # names of a `ClassLabel`
        return splits, types[first]
    if isinstance(found[0], str):
        check_spaces(set(found), "The labels")
        return splits, sorted(set(found))
    if types[first] == "numbers" and any(isinstance(label, float) for label in found):
        for name, split in splits.items():
            splits[name] = split._replace(labels=split.labels and list(map(float, split.labels)))
    return splits, None


def _type(labels):
    """Returns a description of the type of the labels, or None if there are none."""
    found = [each for label in labels or () for each in _as_list(label)]
    if not found:
        return None
    kind = "names" if isinstance(found[0], str) else "numbers"
    return f"lists of {kind}" if isinstance(labels[0], list) else kind


def _read(source, columns, label_names, label_separator, prefix=""):
    """Returns `(Split, names of a ClassLabel or None)`."""
    is_path = isinstance(source, (str, os.PathLike))
    names, values, where = _read_file(pathlib.Path(source)) if is_path else _read_object(source, columns, prefix)
    for argument, name in columns.items():
        if name not in names:
            raise ValueError(
                f"{where(None)}: There is no column {name!r}.{did_you_mean(name, names)}{_separator_advice(names)} "
                f"Expected one of {list(names)}. Received: {argument}={name!r}"
            )
    if repeated := [name for name in columns.values() if list(names).count(name) > 1]:
        raise ValueError(
            f"{where(None)}: The names of the columns must be unique. Rename one of the columns {repeated[0]!r}. "
            f"Received: {list(names)}"
        )
    columns = {argument: values(name) for argument, name in columns.items()}
    texts = [_texts(columns[each], where) for each in ("text_column", "pair_column") if each in columns]
    if not texts[0]:
        raise ValueError(f"{where(None)}: Expected at least one row. Received: no rows")
    class_names, labels = None, columns.get("label_column")
    if isinstance(labels, tuple):  # Hugging Face's `ClassLabel`
        class_names, labels = labels
        if set(labels) == {-1}:  # test data
            labels = None
        else:
            labels = [_class_name(label, class_names, where(row)) for row, label in enumerate(labels)]
    if labels is not None:
        if label_separator is not None:
            rows = [label.split(label_separator) if label.strip() else [] for label in labels]
            labels = [[each.strip() for each in row] for row in rows]
        if label_names is None:
            labels = _booleans_as_words(labels, is_path and _format(pathlib.Path(source)) in (".jsonl", ".json"))
        labels = _labels(labels, where, _is_untyped(source), label_names)
        check_spaces({each for label in labels for each in _as_list(label) if isinstance(each, str)}, where(None))
    return Split(tuple(texts) if len(texts) > 1 else texts[0], labels), class_names


def _separator_advice(names):
    """Returns a sentence for a table whose only column looks like several, or ""."""
    only = str(next(iter(names))) if len(names) == 1 else ""
    found = [each for each in (";", "\t", "|", ",") if each in only]
    if not found:
        return ""
    return (
        f" The table has one column, whose name contains {found[0]!r}. Columns are separated by ',' in a `.csv` file "
        "and by a tab in a `.tsv` file. Read others with `pandas.read_csv(path, sep=...)`, and pass the `DataFrame`."
    )


def _check_names(names):
    """Raises a `ValueError` if `label_names` is not a list of different names."""
    counts = {} if isinstance(names, str) else collections.Counter(str(name) for name in names)
    if not counts or max(counts.values()) > 1:
        raise ValueError(f"`label_names` must be a list of different names. Received: label_names={names!r:.200}")


def _check_separator(separator, label_column, sources):
    """Raises a `ValueError` if `label_separator` cannot be used with these arguments."""
    if not isinstance(separator, str) or not separator:
        raise ValueError(f"`label_separator` must be a string. Received: label_separator={separator!r}")
    if label_column is None:
        raise ValueError(f"`label_separator` requires `label_column`. Received: label_separator={separator!r}")
    for source in sources:
        if not _is_untyped(source):
            received = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
            raise ValueError(
                "`label_separator` requires CSV or TSV files. In other tables, labels are lists. "
                f"Received: label_separator={separator!r} and the table {received}"
            )


def _is_untyped(source):
    """Returns whether a source is a file whose labels are all strings."""
    return isinstance(source, (str, os.PathLike)) and _format(pathlib.Path(source)) in (".csv", ".tsv")


def _class_name(label, class_names, where):
    if not isinstance(label, numbers.Integral) or not 0 <= label < len(class_names):
        raise ValueError(f"{where}: Expected the position of one of {class_names}. Received: {label!r}")
    return class_names[label]


def _format(path):
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix


def _read_file(path):
    """Returns `(names of the columns, function from a name to values, function from a row to a string)`."""
    if _format(path) not in FORMATS:
        raise ValueError(f"The table must be a file with the ending {', '.join(FORMATS)}. Received: {path}")
    if not path.is_file():
        raise FileNotFoundError(f"The table does not exist. Received: {path}")
    if _format(path) in SUFFIXES:
        names, columns = _arrow_columns(path)
        return names, columns, lambda row: f"{path}" if row is None else f"{path}, row {row}"
    if _format(path) in (".jsonl", ".json"):
        rows = read_json_lines(path)
        names = list(dict.fromkeys(name for _, row in rows for name in row))
    else:
        names, rows = read_records(path)
        rows = list(rows)

    def where(row):
        return f"{path}" if row is None else f"{path}, line {rows[row][0]}"

    return names, lambda name: [row.get(name) for _, row in rows], where


def _arrow_columns(path):
    """Returns the names of the columns of a Parquet or Arrow file, and a function from a name to values."""
    batches = list(record_batches(path))
    return column_names(path), lambda name: [value for batch in batches for value in batch.column(name).to_pylist()]


def _read_object(source, columns, prefix):
    """Returns what `_read_file` returns. Values of Hugging Face's `ClassLabel` are a tuple: names and integers."""

    def where(row):
        return f"{prefix}{type(source).__name__}" if row is None else f"{prefix}row {row}"

    if hasattr(source, "column_names") and hasattr(source, "to_pylist"):  # Arrow
        return source.column_names, lambda name: source[name].to_pylist(), where
    if hasattr(source, "columns") and hasattr(source, "iloc"):  # pandas
        return list(source.columns), lambda name: source[name].tolist(), where
    if getattr(source, "column_names", None) and hasattr(source, "features") and hasattr(source, "__getitem__"):

        def values(name):
            class_names = getattr(source.features[name], "names", None)
            values = source[name][:]  # A column reads its values one by one otherwise.
            values = values.tolist() if hasattr(values, "tolist") else list(values)
            return values if class_names is None else (list(class_names), values)

        return list(source.column_names), values, where
    if hasattr(source, "element_spec"):  # tf.data
        if not isinstance(source.element_spec, dict):
            raise ValueError(
                "A `tf.data.Dataset` must have dicts as elements. Call `tfds.load` without `as_supervised=True`. "
                f"Received: {source.element_spec}"
            )
        text = source.element_spec.get(columns["text_column"])
        if text is not None and text.shape.rank:
            source = source.unbatch()
        source = source.as_numpy_iterator()
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        raise ValueError(
            "The table must be a path, a pandas `DataFrame`, a pyarrow `Table`, a Hugging Face `Dataset`, a "
            "`tf.data.Dataset` or another iterable of dicts, or a dict of these. "
            f"Received: {type(source).__name__}"
        )
    rows = []
    for row in source:
        if not isinstance(row, Mapping):
            raise ValueError(f"{where(len(rows))}: Expected a dict. Received: {shorten(row)}")
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row)) if rows else list(columns.values())
    return names, lambda name: [row.get(name) for row in rows], where


def _texts(values, where):
    texts = []
    for row, value in enumerate(values):
        value = value.decode("utf-8") if isinstance(value, bytes) else value
        if not isinstance(value, str) or not value:
            raise ValueError(f"{where(row)}: Expected a text. Remove the row, or add a text. Received: {value!r}")
        texts.append(str(value))
    return texts


def _as_list(label):
    return label if isinstance(label, list) else [label]


def _labels(values, where, untyped, label_names):
    """Returns labels of one type, or their positions, or lists of their names."""
    labels = [_plain(value, where(row)) for row, value in enumerate(values)]
    if label_names is not None:
        return _named(_booleans_as_names(labels, values, label_names), where, [str(name) for name in label_names])
    if untyped and all(isinstance(label, str) for label in labels):
        return _typed(labels, where)
    kinds = [("a number" if isinstance(label, numbers.Real) else type(label).__name__) for label in labels]
    if len(set(kinds)) > 1:
        row = next(row for row, kind in enumerate(kinds) if kind != kinds[0])
        raise _mixed(labels, row, where)
    if any(isinstance(label, float) for label in labels):
        return [float(label) for label in labels]
    return labels


def _booleans_as_names(labels, values, names):
    """Returns labels in which booleans are names if the names are those of booleans, such as `["True", "False"]`."""
    by_value = {str(name).lower(): str(name) for name in names}
    if by_value.keys() != {"false", "true"}:
        return labels
    return [by_value[str(bool(label)).lower()] if _is_boolean(value) else label for label, value in zip(labels, values)]


def _booleans_as_words(values, as_in_json):
    """Returns labels in which booleans are the words in which they are written, as in a CSV file."""
    words = {value: str(value).lower() if as_in_json else str(value) for value in (False, True)}
    return [words[bool(value)] if _is_boolean(value) else value for value in values]


def _is_boolean(value):
    return type(value).__name__ in ("bool", "bool_")  # Python's and NumPy's.


def _named(labels, where, names):
    """Returns positions of labels, or lists of names, except for lists that have a zero or a one for each name."""
    for row, label in enumerate(labels):
        if isinstance(label, list) != isinstance(labels[0], list):
            raise ValueError(
                f"{where(row)}: The labels of all rows must be lists, or none of them. "
                f"Received: {label!r} after {labels[0]!r}"
            )
    flat = [each for label in labels for each in _as_list(label)]
    complete = all(isinstance(label, list) and len(label) == len(names) for label in labels)
    if complete and all(each in (0, 1) for each in flat):
        return labels
    rows = [row for row, label in enumerate(labels) for _ in _as_list(label)]
    found = iter(positions(flat, names, lambda place: where(rows[place])))
    return [[names[next(found)] for _ in label] if isinstance(label, list) else next(found) for label in labels]


def _plain(value, where):
    """Returns a label as a plain value of Python."""
    value = value.item() if getattr(value, "shape", None) == () else value
    value = value.tolist() if hasattr(value, "tolist") else value
    value = value.decode("utf-8") if isinstance(value, bytes) else value
    if isinstance(value, (list, tuple)):
        return [_plain(each, where) for each in value]
    if isinstance(value, numbers.Integral):  # also a boolean
        return int(value)
    if (
        (isinstance(value, str) and not value.strip())
        or not isinstance(value, (str, float))
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        raise ValueError(f"{where}: Expected a label. Remove the row, or add a label. Received: {value!r}")
    return value


def _typed(labels, where):
    """Returns labels of a file without types as numbers if all are numbers. A label with a leading zero is a name."""
    is_number = [bool(NUMBER.fullmatch(label)) and math.isfinite(float(label)) for label in labels]
    if all(is_number):
        return [int(label) for label in labels] if all(map(_is_integer, labels)) else [float(label) for label in labels]
    words = [row for row, label in enumerate(labels) if not is_number[row] and not label.isdecimal()]
    if words and any(is_number):
        raise _mixed(labels, words[0] if is_number[0] else is_number.index(True), where)
    return labels


def _is_integer(label):
    return label.lstrip("+-").isdecimal()


def _mixed(labels, row, where):
    return ValueError(
        f"{where(row)}: Labels must be all names or all numbers. Pass `label_names` if numbers are names too. "
        f"Received: {labels[row]!r} after {labels[0]!r}"
    )
