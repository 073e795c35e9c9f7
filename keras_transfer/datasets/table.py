"""Texts and labels from any table, by the names of its columns: files, pandas, Hugging Face and TensorFlow datasets."""

import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from keras_transfer.core.expect import expect, expects
from keras_transfer.core.lines import NUMBER, shorten
from keras_transfer.core.names import check_spaces, did_you_mean
from keras_transfer.core.tables import SEPARATORS, Table, looks_joined, marked, split_labels, warn_of_joined
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.splits import Splits, positions


@expects()
def read_table(
    source: Any,
    text_column: str | int,
    label_column: str | int | Sequence[str | int] | None = None,
    *,
    pair_column: str | int | None = None,
    label_names: Sequence[str] | None = None,
    label_separator: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    header: int | None = 0,
) -> Split | Splits:
    """Reads texts and labels from a table, by the names of its columns.

    Labels are returned as in the table: names, numbers, or lists of names for several labels. Booleans are the names
    `"False"` and `"True"`, in JSON Lines `"false"` and `"true"`. A CSV file has no types: its labels are integers or
    floats if all of them are numbers, and names otherwise. A mix of numbers and names is an error. With `label_names`,
    labels become positions. Lists of labels become lists of names, which tasks with `multi_label=True` accept. They are
    not changed if all of them have a zero or a one for each name.

    What a file contains counts more than its name: the separator of the fields, quotes, compression, and the form of
    JSON are found in it. A warning says what the name does not say.

    Args:
        source: One of the following:
            - Path of a CSV or TSV file, or another file of text with separated fields. Fields between tabs are read
              without quotes, as in GLUE, unless those in the first 10,000 lines are in quotes exactly as pandas or
              Excel writes them.
            - Path of a JSON file: JSON Lines, an array, or any form that pandas writes.
            - Each of these compressed by gzip, zip, bz2 or xz.
            - Path of an `.xlsx`, `.xls` or `.ods` file, whose first sheet is read by pandas.
            - Path of a `.parquet` file, or of an `.arrow` file (Arrow IPC, as a file or a stream).
            - A pandas `DataFrame`, a pyarrow `Table`, or a Hugging Face `Dataset`.
            - A `tf.data.Dataset` of dicts, such as `tfds.load(name, split="train")`, or another iterable of dicts.
            - A dict of such sources: the splits by name. A Hugging Face `DatasetDict` and `tfds.load(name)` are dicts.
        text_column: String. Column of the texts.
        label_column: String. Column of the labels, or list of strings for one column per label, with a one, true, yes
            or x where a text has it, and a zero, false, no or nothing where not. Defaults to `None`, for texts without
            labels. A Hugging Face `ClassLabel` is read as names, and ignored if the whole column is -1.
        pair_column: String. Column of the second texts of pairs. Defaults to `None`.
        label_names: List of strings. Names of the labels in order. Either all labels of a table are names, or all are
            positions. They are names if one of the names is a number. Defaults to `None`.
        label_separator: String. Separator of the labels of a text in a file without types, such as `"|"` in CSV. Each
            text then has a list of labels, which may be empty, without the spaces around them. Defaults to `None`, for
            one label per text.
        separator: String. The character between the fields of a file. Defaults to `None`, for the one that divides the
            first lines into the same number of fields.
        encoding: String. Encoding of a file, such as `"cp1252"`. Defaults to `None`, for UTF-8, or for UTF-16 if the
            file begins with its mark.
        header: `0` if the first row of a file has the names of the columns, or `None` if there are none. The columns
            are then integers from 0, such as `text_column=1`. Defaults to `0`.

    Returns:
        A `Split`, or `Splits` for a dict. Their `label_names` are those given, those of a `ClassLabel`, the names of
        several label columns, or the sorted names of all splits, and `None` for numbers.

    Raises:
        FileNotFoundError: If the file does not exist.
        ImportError: If pandas or pyarrow is required to read the file.
        ValueError: If a column is missing or occurs twice, if a row has another number of fields, if a text is missing
            or not a string, if labels are missing, unknown, of mixed types (also in different splits) or differ only in
            spaces, if they are the column of the texts, if `label_names` is not a list of different names, if the
            splits have different names in their `ClassLabel`s, if there are no rows, if `label_separator` is used
            without `label_column` or with tables that have types, if a file is cut, is a URL or has another format or
            encoding, or if `separator`, `encoding` or `header` is invalid or is used without a file.

    Example:
    ```python
    with open("reviews.csv", "w") as file:
        file.write('review,sentiment\\n"What a film, really!",good\\nA bore.,bad\\n')
    texts, labels = keras_transfer.datasets.read_table("reviews.csv", "review", "sentiment")
    data = keras_transfer.datasets.read_table({"train": "reviews.csv"}, "review", "sentiment")
    data.label_names  # ["bad", "good"]
    ```
    """
    several = isinstance(label_column, (list, tuple))
    label_columns: Any = label_column if several else [] if label_column is None else [label_column]
    columns = {"text_column": [text_column], "label_column": list(label_columns)}
    columns["pair_column"] = [] if pair_column is None else [pair_column]
    rule = "`label_column` must be another column than that of the texts."
    others = text_column not in label_columns and (pair_column is None or pair_column not in label_columns)
    expect(others, rule, text_column=text_column, pair_column=pair_column, label_column=label_column)
    rule = "`label_names` are the names of the columns, with one column for each label. Leave it out."
    if several:
        expect(label_names is None, rule, label_names=label_names)
    if label_names is not None:
        names = [] if isinstance(label_names, str) else [str(name) for name in label_names]
        expect(
            names and len(set(names)) == len(names),
            "`label_names` must be a list of different names.",
            label_names=label_names,
        )
    is_string = label_separator is None or (isinstance(label_separator, str) and label_separator)
    expect(is_string, "`label_separator` must be a string.", label_separator=label_separator)
    fits = label_separator is None or (label_columns and not several)
    expect(fits, "`label_separator` requires one `label_column`.", label_separator=label_separator)

    def read(source, prefix=""):
        table = _columns_of(source, columns, {"separator": separator, "encoding": encoding, "header": header}, prefix)
        return _read(table, columns, several, label_names, label_separator)

    if not isinstance(source, Mapping):
        return read(source)[0]
    splits = {name: read(each, f"{name}: ") for name, each in source.items()}
    if several or label_names is not None:
        names = [str(name) for name in label_columns] if several else list(label_names)
        return Splits({name: split for name, (split, _) in splits.items()}, names)
    return Splits(*_with_one_type(splits))


def _with_one_type(splits):
    """Returns `(splits, label names or None)`. Integers become floats if another split has floats."""
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
    if isinstance(types[first], list):  # They are the names of a `ClassLabel`.
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


class _Columns(NamedTuple):
    """The columns of a table.

    Attributes:
        names: List of their names.
        values: Function from a name to the list of its values.
        where: Function from a row to the beginning of an error message, or from `None` to that about the table.
        kind: String. `"text"` for a file without types, `"json"`, or `"object"`.
        advice: String. What to do if a column is missing, as the next sentence of an error message.
        class_names: Dict from names of columns to the names that the integers in them stand for.
    """

    names: list
    values: Callable
    where: Callable
    kind: str = "object"
    advice: str = ""
    class_names: Mapping = {}


def _columns_of(source, columns, form, prefix):
    """Returns the columns of a table of any kind."""
    wanted = [name for each in columns.values() for name in each]
    if isinstance(source, (str, os.PathLike)):
        table = Table(source, **form, columns=wanted)
        rows = list(table) if table.typed or {*wanted} <= {*table.names} else []
        names, kind = table.names, "object" if table.binary else "json" if table.typed else "text"
        if kind == "json":  # Its rows may lack columns.
            names = list(dict.fromkeys(name for _, row in rows for name in row))

        def place(row):
            return f"{source}" if row is None else f"{source}, {table.unit} {rows[row][0]}"

        return _Columns(names, lambda name: [row.get(name) for _, row in rows], place, kind, _advice(table))
    if given := [name for name, value in form.items() if value != (0 if name == "header" else None)]:
        raise ValueError(f"`{given[0]}` requires a file of text. Received: {shorten(source)}")

    def where(row):
        return f"{prefix}{type(source).__name__}" if row is None else f"{prefix}row {row}"

    if hasattr(source, "column_names") and hasattr(source, "to_pylist"):  # An Arrow table has these.
        return _Columns(source.column_names, lambda name: source[name].to_pylist(), where)
    if hasattr(source, "columns") and hasattr(source, "iloc"):  # A pandas table has these.
        return _Columns(list(source.columns), lambda name: source[name].tolist(), where)
    if getattr(source, "column_names", None) and hasattr(source, "features") and hasattr(source, "__getitem__"):
        class_names = {name: names for name in wanted if (names := getattr(source.features.get(name), "names", None))}

        def values(name):
            column = source[name][:]  # A column reads its values one by one otherwise.
            return column.tolist() if hasattr(column, "tolist") else list(column)

        return _Columns(list(source.column_names), values, where, class_names=class_names)
    rows = _rows_of(source, columns["text_column"][0])
    for number, row in enumerate(rows):
        expect(isinstance(row, Mapping), "Expected a dict.", row, where=where(number))
    names = dict.fromkeys(name for row in rows for name in row) if rows else wanted
    return _Columns(list(names), lambda name: [row.get(name) for row in rows], where)


def _rows_of(source, text_column):
    """Returns the elements of a `tf.data.Dataset` or of another iterable as a list."""
    if hasattr(source, "element_spec"):  # A `tf.data.Dataset` has one.
        rule = "A `tf.data.Dataset` must have dicts as elements. Call `tfds.load` without `as_supervised=True`."
        expect(isinstance(source.element_spec, dict), rule, element_spec=source.element_spec)
        text = source.element_spec.get(text_column)
        source = source.unbatch() if text is not None and text.shape.rank else source
        source = source.as_numpy_iterator()
    rule = (
        "The table must be a path, a pandas `DataFrame`, a pyarrow `Table`, a Hugging Face `Dataset`, a "
        "`tf.data.Dataset` or another iterable of dicts, or a dict of these."
    )
    expect(not isinstance(source, (str, bytes)) and isinstance(source, Iterable), rule, source=source)
    return list(source)


def _advice(table):
    """Returns what to do if a file lacks a column, as the next sentence of an error message."""
    if table.typed:
        return ""
    only = str(table.names[0]) if len(table.names) == 1 else ""
    if found := [each for each in SEPARATORS if each in only]:
        return f" The table has one column, whose name contains {found[0]!r}. Pass `separator={found[0]!r}`."
    if table.blank and table.separator == "\t":
        return " For words and their labels, with an empty line after each sentence, use `read_conll`."
    if table.header is not None:
        return " For a file without a header, pass `header=None`, and numbers as columns, such as `text_column=0`."
    return ""


def _read(table, columns, several, label_names, label_separator):
    """Returns `(Split, names of a ClassLabel or None)`."""
    where = table.where
    expect(table.names, "Expected at least one row.", received="no rows", where=where(None))
    rule = "`label_separator` requires CSV or TSV files. In other tables, labels are lists."
    if label_separator is not None and table.kind != "text":
        received = f"label_separator={label_separator!r} and the table {where(None)}"
        raise ValueError(f"{rule} Received: {received}")
    for argument, name in ((argument, name) for argument, each in columns.items() for name in each):
        near = did_you_mean(name, [str(each) for each in table.names])
        if name not in table.names:
            raise ValueError(
                f"{where(None)}: There is no column {name!r}.{near} Expected one of {list(table.names)}."
                f"{'' if near else table.advice} Received: {argument}={name!r}"
            )
        if list(table.names).count(name) > 1:
            raise ValueError(
                f"{where(None)}: The names of the columns must be unique. Rename one of the columns {name!r}. "
                f"Received: {list(table.names)}"
            )
    texts = [_texts(table.values(name), where) for each in ("text_column", "pair_column") for name in columns[each]]
    expect(texts[0], "Expected at least one row.", received="no rows", where=where(None))
    texts = tuple(texts) if len(texts) > 1 else texts[0]
    if several:
        return Split(texts, _of_columns({name: table.values(name) for name in columns["label_column"]}, where)), None
    if not columns["label_column"]:
        return Split(texts, None), None
    [column] = columns["label_column"]
    labels, class_names = table.values(column), table.class_names.get(column)
    if class_names is not None:
        if set(labels) == {-1}:  # Test data has no labels.
            return Split(texts, None), class_names
        for row, label in enumerate(labels):
            is_place = isinstance(label, numbers.Integral) and 0 <= label < len(class_names)
            expect(is_place, f"Expected the position of one of {class_names}.", label, where=where(row))
        labels = [class_names[label] for label in labels]
    if label_separator is not None:
        labels = [split_labels(label, label_separator) for label in labels]
    elif label_names is None:
        warn_of_joined(labels, where(None), "`label_separator={!r}`")
    words = _words_of_booleans(label_names, table.kind == "json")
    labels = [words.get(bool(label), label) if _is_boolean(label) else label for label in labels]
    labels = _labels(labels, where, table.kind == "text", label_names)
    check_spaces({each for label in labels for each in _as_list(label) if isinstance(each, str)}, where(None))
    return Split(texts, labels), class_names


def _of_columns(columns, where):
    """Returns the names of the labels of each text from one column for each label."""
    labels = []
    for row, values in enumerate(zip(*columns.values())):
        cells = dict(zip(columns, values))
        found = marked(cells, columns)
        if found is None:
            raise ValueError(
                f"{where(row)}: A column of one label must have 1 or 0, true or false, yes or no, or x or nothing. "
                f"Remove rows that have no label yet. Received: {cells!r:.200}"
            )
        labels.append([str(name) for name in found])
    return labels


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
        return _named(labels, where, [str(name) for name in label_names])
    found = [_as_number(label) for label in labels] if untyped else labels
    kinds = ["a number" if isinstance(label, numbers.Real) else type(label).__name__ for label in found]
    row = next((row for row, kind in enumerate(kinds) if kind != kinds[0]), None)
    if row is None:
        return list(map(float, found)) if any(isinstance(label, float) for label in found) else found
    if untyped and all(kind == "a number" or label.isdecimal() for label, kind in zip(labels, kinds)):
        return labels  # Some have a leading zero.
    joined = looks_joined(labels)
    advice = (
        f"`label_separator={joined!r}` if they join several" if joined else "`label_names` if numbers are names too"
    )
    raise ValueError(
        f"{where(row)}: Labels must be all names or all numbers. Pass {advice}. "
        f"Received: {labels[row]!r} after {labels[0]!r}"
    )


def _as_number(label):
    """Returns a label of a file without types as a number if it is one. With a leading zero, it is a name."""
    if not isinstance(label, str) or not NUMBER.fullmatch(label) or not math.isfinite(float(label)):
        return label
    return int(label) if label.lstrip("+-").isdecimal() else float(label)


def _words_of_booleans(names, as_in_json):
    """Returns the names that booleans become: of `names` if they are those of booleans, or as they are written."""
    if names is None:
        names = ["false", "true"] if as_in_json else ["False", "True"]
    by_value = {str(name).lower(): str(name) for name in names}
    return {False: by_value["false"], True: by_value["true"]} if by_value.keys() == {"false", "true"} else {}


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
    # Columns of integers that have or had an empty cell are float, also in files that pandas wrote.
    whole = [str(each).endswith(".0") and str(each) not in names and NUMBER.fullmatch(str(each)) for each in flat]
    flat = [int(float(each)) if is_whole else each for each, is_whole in zip(flat, whole)]
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
    if isinstance(value, numbers.Integral):  # A boolean is one, too.
        return int(value)
    if (
        (isinstance(value, str) and not value.strip())
        or not isinstance(value, (str, float))
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        raise ValueError(f"{where}: Expected a label. Remove the row, or add a label. Received: {value!r}")
    return value
