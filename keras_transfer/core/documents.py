"""The documents of files and iterables, one after another, as lists of lines."""

import contextlib
import gzip
import itertools
import json
import os
import pathlib
import zlib
from collections.abc import Mapping

from keras_transfer.core.arrays import is_lazy
from keras_transfer.core.expect import expect
from keras_transfer.core.lines import decode_lines, incomplete, json_objects
from keras_transfer.core.tables import ARROW, EXCEL, Table

_CHUNK = 1000  # Number of texts of a dataset's column that are loaded at once.
MAX_LINE = 2**22  # In bytes. A longer line is not text, and tokenizing it would need gigabytes.


def read_documents(source, text_column, documents):
    """Yields documents, each a list of lines that are not empty.

    Args:
        source: Path or list of paths of files, or an iterable of strings, each a document.
        documents: String. What ends a document in a text file, `"blank_line"` or `"line"`.
    """
    if (paths := paths_of(source)) is not None:
        return itertools.chain.from_iterable(_read_file(path, text_column, documents) for path in paths)
    return _from_iterable(source)


def paths_of(source):
    """Returns the list of paths that `source` is or contains, or None for an iterable of texts."""
    if isinstance(source, Mapping) or hasattr(source, "columns"):  # Iterating would give the names of the columns.
        names = [str(name) for name in (source if isinstance(source, Mapping) else source.columns)]
        raise ValueError(
            "The texts of a table or a dict are one of its columns: pass `table['text']`, or the values of the dict. "
            f"Received: {type(source).__name__} with {names!r:.100}"
        )
    if isinstance(source, (str, os.PathLike)):
        source = [pathlib.Path(source)]
    if not isinstance(source, (list, tuple)) or not any(isinstance(each, os.PathLike) for each in source):
        if isinstance(source, (list, tuple)) and source:
            _check_no_file_name(source[0])
        return None
    paths = [pathlib.Path(each) for each in source]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}. Received: {[str(each) for each in paths]!r:.200}")
    return paths


def _check_no_file_name(text):
    is_file = isinstance(text, str) and len(text) < 1000 and os.path.isfile(text)
    rule = "A list of strings contains texts. Pass files as a list of `pathlib.Path`."
    expect(not is_file, rule, received=f"{text!r:.1000}, the name of a file")


def _from_iterable(source):
    rule = "An iterable must yield strings, each a document. Pass files as a path, or as a list of `pathlib.Path`."
    texts = source
    if is_lazy(source):  # Otherwise, each text is loaded separately.
        texts = itertools.chain.from_iterable(source[i : i + _CHUNK] for i in range(0, len(source), _CHUNK))
    for number, text in enumerate(texts):
        if number == 0:
            _check_no_file_name(text)
        expect(isinstance(text, str), rule, text, position=number)
        yield _lines(text, f"The document at position {number}")


def _read_file(path, text_column, documents):
    """Returns an iterator over the documents of a file: its rows, or if it has none, the parts of its text."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind in (".jsonl", ".ndjson") or (kind == ".json" and _are_json_lines(path)):
        return _of_json_lines(path, text_column)
    if kind in (".csv", ".tsv", ".json", *EXCEL, *ARROW):
        return _of_table(path, text_column)
    return _by_line(path) if documents == "line" else _by_blank_line(path)


def _read_lines(path):
    """Yields the lines of a file without loading all of it."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        yield from decode_lines(_lines_of(file, path), path)


def _lines_of(file, path):
    """Yields lines as bytes, or raises an error with the name of the file for a too long line or a cut gzip file."""
    rule = f"Expected lines of at most {MAX_LINE:,} bytes. Break the lines of the file."
    for number in itertools.count(1):
        try:
            line = file.readline(MAX_LINE + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise incomplete(path, error) from None
        if not line:
            return
        expect(len(line) <= MAX_LINE, rule, received="a longer one", where=f"{path}, line {number}")
        yield line


def _by_line(path):
    for line in _read_lines(path):
        if line := line.strip():
            yield [line]


def _by_blank_line(path):
    for is_text, lines in itertools.groupby(map(str.strip, _read_lines(path)), bool):
        if is_text:
            yield list(lines)


def _are_json_lines(path):
    """Returns whether a file has an object on each line. Unlike a `Table`, it may be larger than memory."""
    with contextlib.suppress(ValueError):  # `Table` says what is wrong.
        first, second = itertools.islice(_read_lines(path), 2)
        return isinstance(json.loads(first), dict) and bool(second.strip())
    return False


def _of_json_lines(path, text_column):
    for number, row in json_objects(_read_lines(path), path):
        yield _text_of(row, text_column, f"{path}, line {number}")


def _of_table(path, text_column):
    table = Table(path, columns=[text_column])
    if table.names:  # A list of objects may be empty.
        _check_column(text_column, table.names, path)
    for number, row in table:
        yield _text_of(row, text_column, f"{path}, {table.unit} {number}")


def _check_column(text_column, names, where):
    expected = f"a column {text_column!r}. Choose one with `text_column`"
    expect(text_column in names, f"Expected {expected}.", list(names), where=where)


def _text_of(row, text_column, where):
    _check_column(text_column, row, where)
    expect(isinstance(row[text_column], str), "Expected a text.", row[text_column], where=where)
    return _lines(row[text_column], where)


def _lines(text, where):
    lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
    are_short = all(len(line) <= MAX_LINE for line in lines)
    expect(are_short, f"Expected lines of at most {MAX_LINE:,} characters.", received="a longer line", where=where)
    return lines
