"""Tables in files: what separates and encodes their fields is found in the file, and their rows are read one by one."""

import codecs
import contextlib
import csv
import functools
import io
import itertools
import json
import logging
import os
import pathlib
import re
import zipfile

from keras_transfer.core import lines
from keras_transfer.core.expect import expect, raising
from keras_transfer.core.names import listed

SEPARATORS = (",", "\t", ";", "|")
EXCEL = (".xlsx", ".xls", ".ods")
ARROW = (".parquet", ".arrow")
MARKS = {"1": True, "1.0": True, "true": True, "yes": True, "x": True}  # In a column of one label.
MARKS |= {"0": False, "0.0": False, "false": False, "no": False, "": False}
_SAMPLE = 100  # Number of lines from which the separator is found.
_QUOTED = 10_000  # Number of lines from which it is found whether fields between tabs are in quotes.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # It begins with the one of UTF-16.
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Table:
    """The rows of a table in a file, which are read one at a time, so that a table may be larger than memory.

    Iterating yields `(number, row)`, where the row is a dict from columns to values. A warning says what was found in
    the file that its name does not say. Blank lines are empty texts in a table with one column. In others, they are
    skipped, but are an error if tabs separate fields without quotes.

    Args:
        path, separator, encoding, header: As for `datasets.read_table`.
        columns: List of strings. The columns that a Parquet or Arrow file is read for. Defaults to `None`, for all.

    Attributes:
        names: List of the columns, or of those of the first row in JSON Lines.
        kind: String. Kind of the rows, `".csv"`, `".tsv"` or `".jsonl"`.
        typed: Boolean. Whether values have types, as in JSON. All others are strings.
        binary: Boolean. Whether the file is neither JSON nor text with separated fields.
        dialect: Dict. The arguments of `csv.writer` for such a file, or `None` for JSON.
        unit: String. What is counted by the number of a row, `"line"` or `"row"`.
        fraction: Float. Fraction of the file that was read.
    """

    def __init__(self, path, separator=None, encoding=None, header=0, columns=None):
        rule = (
            "The table must be a file. Download it with `keras.utils.get_file(origin=url)`, which returns its path, or "
            "pass `pandas.read_csv(url)`."
        )
        expect(not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", os.fspath(path)), rule, received=path)
        self.path, self.header, self.fraction = pathlib.Path(path), header, 0.0
        expect(self.path.is_file(), "The table does not exist.", received=path, error=FileNotFoundError)
        self.encoding = _checked_encoding(encoding)
        rule = (
            "`separator` must be one character, such as ';' or a tab. Read other files with `pandas.read_csv(path, "
            "sep=..., engine='python')`, and pass the `DataFrame`."
        )
        fits = separator is None or (isinstance(separator, str) and len(separator) == 1)
        expect(fits, rule, separator=separator)
        fits = header in (0, None) and header is not False
        expect(fits, "`header` must be 0, or None for a file without a header.", header=header)
        self.rows, self.names, self.unit, found = None, None, "line", []
        name = self.path.name.lower()
        while name.endswith((".gz", ".zip", ".bz2", ".xz")):
            name = name.rpartition(".")[0]
        self.binary = name.endswith((*EXCEL, *ARROW))
        self.typed = self.binary or name.endswith((".jsonl", ".ndjson", ".json"))
        fits = not self.typed or (separator is None and (header == 0 or name.endswith(EXCEL)))
        expect(fits, "`separator` and `header` are for files with separated fields.", path=path)
        if name.endswith(EXCEL):
            rows = _read_excel(self.path, header)
            self._set_rows(lambda: rows)
        elif name.endswith(ARROW):
            self.names = column_names(self.path)
            read = [name for name in self.names if columns is None or name in columns]
            batches = functools.partial(record_batches, self.path, read)
            self._set_rows(lambda: (row for batch in batches() for row in batch.to_pylist()))
        else:
            self._find(name, separator, found)
        if self.names is None:
            first = next(iter(self), None)
            self.names = [] if first is None else list(first[1])
        level = logging.WARNING if found else logging.INFO
        lines.log.log(level, "%s is read as %s.", path, ", ".join([*found, f"columns {listed(self.names)}"]))

    def _find(self, name, separator, found):
        """Finds the form of a file of text, and adds what its name does not say to the list `found`."""
        given = self.encoding
        head = list(itertools.islice(self._lines(), _SAMPLE))
        if self.encoding != given:
            found.append(self.encoding.upper())
        start = next((line.strip() for line in head if line.strip()), "")
        if not self.typed and separator is None and re.match(r'\{\s*("|$)|\[\s*(\{|$)', start):
            self.typed = True
            found.append("JSON")
        if self.typed:
            self.kind, self.dialect = ".jsonl", None
            if not _is_json_lines(head, name):
                rows, form = _records(lines.parse_json("".join(self._lines()), self.path, 1), self.path)
                self._set_rows(lambda: rows)
                found += [form] if form else []
            return
        default = "\t" if name.endswith((".tsv", ".tab")) else ","
        self.separator = separator or _find_separator(head, default)
        self.quoted = self.separator != "\t" or _is_quoted(list(itertools.islice(self._lines(), _QUOTED)))
        if separator is None and (self.separator != default or not name.endswith((".csv", ".tsv", ".tab"))):
            found.append(f"fields separated by {self.separator!r}")
        if self.separator == "\t" and self.quoted:
            found.append("fields in quotes, which are removed")
        kind = ".tsv" if self.separator == "\t" else ".csv"
        self.kind = next((each for each in (".csv", ".tsv") if name.endswith(each)), kind)
        self.dialect = {"delimiter": self.separator}
        if not self.quoted:
            self.dialect |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
        _, first = next(lines.split_fields(head, self.path, self.separator, self.quoted), (0, []))
        expect(first, "Expected at least one row.", received="no rows", where=self.path)
        self.names = list(range(len(first)))
        if self.header is not None:
            self.names = [name or f"Unnamed: {place}" for place, name in enumerate(first)]
        are_unique = len(set(self.names)) == len(self.names)
        expect(are_unique, "The names of the columns must be unique.", self.names, where=self.path)
        self.blank = "\n" in [line.lstrip("\r") for line in head]

    def _set_rows(self, rows):
        """Sets a function that returns the rows of a file that is not read line by line."""
        self.rows, self.unit, self.kind, self.dialect = rows, "row", ".jsonl", None

    def _lines(self):
        with lines.open_binary(self.path) as file:
            yield from self._decoded(file)

    def _decoded(self, file):
        """Yields the lines of a file as strings, with their ends."""
        start = file.read(64)
        file.seek(0)
        marks = [name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)]
        self.encoding = self.encoding or (marks[0] if marks else None)
        is_text = self.encoding is not None or b"\0" not in start
        expected = "a file of text. For UTF-16 without its mark, pass `encoding='utf-16-le'`"
        expect(is_text, f"Expected {expected}.", start[:16], where=self.path)
        if self.encoding is not None and self.encoding.startswith(("utf-16", "utf-32")):
            with raising(f"Expected {self.encoding}.", UnicodeDecodeError, where=self.path):
                return io.StringIO(file.read().decode(self.encoding).removeprefix("\ufeff"), newline="\n")
        return lines.decode_lines(file, self.path, self.encoding or "utf-8", choose=True)

    def __iter__(self):
        if self.rows is not None:
            yield from enumerate(self.rows())
            return
        with lines.open_binary(self.path) as file:
            size = max(file.seek(0, os.SEEK_END), 1)  # That of a compressed file is smaller.
            file.seek(0)
            content = self._decoded(file)
            for row in lines.json_objects(content, self.path) if self.typed else self._fields(content):
                self.fraction = min(file.tell() / size, 1.0)
                yield row

    def _fields(self, content):
        rows = lines.split_fields(content, self.path, self.separator, self.quoted)
        if self.header is not None:
            next(rows, None)
        for number, fields in lines.checked_rows(self.path, self.names, rows):
            yield number, dict(zip(self.names, fields))


def marked(row, columns):
    """Returns the names of the columns of a row with a mark, a one or true, or None if another value is neither."""
    values = [MARKS.get(str(row.get(name)).strip().lower()) for name in columns]
    return None if None in values else [name for name, value in zip(columns, values) if value]


def looks_joined(labels):
    """Returns the character that joins several labels in some of these, such as ',' in '2,7', or None."""
    labels = {label.strip() for label in labels if isinstance(label, str)}
    for separator in (",", ";", "|"):
        parts = {part.strip() for label in labels for part in label.split(separator)}
        if len(parts) < len(labels):
            return separator
    return None


def warn_of_joined(labels, where, advice):
    """Logs a warning if labels look as if some joined several. `{!r}` in the advice is what joins them."""
    if joined := looks_joined(labels):
        label = next(label for label in labels if joined in str(label))
        text = "%s: Some labels, such as %r, look like several labels. If they are, pass %s."
        lines.log.warning(text, where, label, advice.format(joined))


def split_labels(value, separator):
    """Returns the labels of a text in a file without types as a list, without the spaces around them."""
    return [name.strip() for name in value.split(separator)] if value.strip() else []


def _checked_encoding(encoding):
    rule = "`encoding` must be the name of an encoding, such as 'utf-8', 'cp1252', 'utf-16' or 'gb18030'."
    with raising(rule, LookupError, TypeError, describe=lambda cause: f"{encoding=}"):
        return None if encoding is None else codecs.lookup(encoding).name.replace("utf-8-sig", "utf-8")


def _read_excel(path, header):
    """Returns the rows of the first sheet of an Excel file as dicts."""
    missing = f"To read {path}, run `pip install pandas openpyxl`, or save it as CSV."
    damaged = "Expected an Excel file. Save it as .csv, and read that."
    with (
        raising(missing, ImportError, error=ImportError),
        raising(damaged, KeyError, OSError, ValueError, zipfile.BadZipFile, where=path),
    ):
        import pandas

        return pandas.read_excel(path, header=header).to_dict("records")


def _find_separator(head, default):
    """Returns the character that divides all lines into the same number of fields, more than one, or `default`."""
    for separator in dict.fromkeys([default, *SEPARATORS]):
        for quoted in (False, True) if separator == "\t" else (True,):
            lengths = []
            try:
                for _, fields in lines.split_fields(head, "", separator, quoted):
                    lengths.append(len(fields))
            except ValueError:  # A quote that is not closed, perhaps because the sample ends within a text.
                if len(head) < _SAMPLE or len(lengths) < 2:
                    continue
            if len(set(lengths)) == 1 and lengths[0] > 1:
                return separator
    return default


def _is_quoted(head):
    """Returns whether the first lines have quotes exactly where pandas, Excel or a writer of all quotes puts them.

    Otherwise, a quote is a part of its text, as in GLUE.
    """
    rows = []
    try:
        for _, fields in lines.split_fields(head, "", "\t", True):
            rows.append(fields)
    except ValueError:  # A quote that is not closed, perhaps because the last of the lines ends within a text.
        if len(head) < _QUOTED:
            return False
    text = "".join(head).replace("\r\n", "\n") + "\n"
    for special in ('\t"\r\n', '\t"\r\n,', ""):  # What puts a field into quotes: in pandas, in Excel, and everything.
        written = "".join("\t".join(_quote(field, special) for field in fields) + "\n" for fields in rows)
        if '"' in written and text.startswith(written.replace("\r\n", "\n")):
            return True
    return False


def _quote(field, special):
    if special and not any(character in field for character in special):
        return field
    return '"' + field.replace('"', '""') + '"'


def _is_json_lines(head, name):
    """Returns whether the first lines are JSON objects, one on each line, and not one object of a whole table."""
    rows, of_lines = [line for line in head if line.strip()], name.endswith((".jsonl", ".ndjson"))
    try:
        first = json.loads(rows[0]) if rows else {}
    except ValueError:
        return of_lines and rows[0].strip() not in ("[", "{")
    if not isinstance(first, dict) or of_lines or len(rows) != 1:
        return isinstance(first, dict)
    kinds = {type(each) for each in first.values()}
    return not (kinds in ({dict}, {list}) or isinstance(first.get("data"), list))


def _records(data, path):
    """Returns the rows of a table in JSON as dicts, and the name of its form, or None for an array of rows."""
    form = None
    if isinstance(data, dict):
        rows, names = data.get("data"), data.get("columns")
        values = list(data.values())
        if isinstance(rows, list) and isinstance(names, list):
            data, form = [dict(zip(names, row)) for row in rows], "the parts 'columns' and 'data'"
        elif isinstance(rows, list):
            data, form = rows, "the part 'data'"
        elif values and all(isinstance(value, dict) for value in values):
            if all(str(name).isdecimal() for name in data) and not all(name.isdecimal() for name in values[0]):
                data, form = values, "rows by number"
            else:
                data = [{name: cells.get(number) for name, cells in data.items()} for number in values[0]]
                form = "columns of rows by number"
        elif values and all(isinstance(value, list) for value in values):
            data, form = [dict(zip(data, row)) for row in itertools.zip_longest(*values)], "columns"
        else:
            data = [data]
    for number, row in enumerate(data if isinstance(data, list) else [data]):
        expect(isinstance(row, dict), "Expected a JSON object.", row, where=f"{path}, row {number}")
        expected = "a table. Read SQuAD's questions with `load_squad`"
        expect("paragraphs" not in row, f"Expected {expected}.", received="paragraphs", where=path)
    return data, form


# === Parquet and Arrow files, a batch of rows at a time ===


def column_names(path):
    """Returns the names of the columns of a Parquet or Arrow file.

    An `.arrow` file has Arrow's IPC format, as a file (Feather) or a stream (Hugging Face's).
    """
    with _opened(path) as (names, _):
        return names


def record_batches(path, columns=None):
    """Yields the rows of a Parquet or Arrow file as batches of pyarrow."""
    with _opened(path) as (names, read):
        yield from read(names if columns is None else columns)


@contextlib.contextmanager
def _opened(path):
    """Opens a file, for its column names and a function from such names to an iterable of batches."""
    suffix = path.suffix.lower()
    rule = (
        "Expected a file without gzip, because Parquet and Arrow files contain compressed columns. Decompress the file."
    )
    expect(suffix != ".gz", rule, received="a gzip file", where=path)
    with raising(f"To read {path}, run `pip install pyarrow`.", ImportError, error=ImportError):
        import pyarrow
        import pyarrow.parquet
    damage = raising(
        f"Expected a complete {suffix[1:].title()} file.",
        pyarrow.ArrowInvalid,
        OSError,
        where=path,
        describe=lambda cause: f"{cause!s:.200}",
    )
    with damage, contextlib.ExitStack() as stack:
        if suffix == ".parquet":
            file = stack.enter_context(pyarrow.parquet.ParquetFile(path))
            yield file.schema_arrow.names, lambda columns: file.iter_batches(columns=columns)
            return
        source = stack.enter_context(pyarrow.memory_map(str(path)))
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = stack.enter_context((pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source))
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        yield reader.schema.names, lambda columns: (batch.select(columns) for batch in batches)
