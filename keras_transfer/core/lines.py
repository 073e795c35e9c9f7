"""Reads text, JSON and CSV files, with errors that name the file and the line."""

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
import pathlib
import re
import zipfile
import zlib

from keras_transfer.core.expect import expect

log = logging.getLogger("keras_transfer")

# A number in a file without types. With a leading zero, it is a name.
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


def read_text(path):
    """Returns the text of a file in UTF-8, which may be compressed by gzip."""
    with open_binary(path) as file:
        return "".join(decode_lines(file, path))


def read_lines(path):
    """Returns the lines without their ends. Texts can contain other characters that `splitlines` uses."""
    with open_binary(path) as file:
        return [_without_end(line) for line in decode_lines(file, path)]


def open_binary(path):
    """Opens a file, or the content of one that is compressed by gzip, zip, bz2 or xz, to read bytes."""
    path = pathlib.Path(path)
    file = path.open("rb")
    start = file.read(6)
    file.seek(0)
    unpack = next((unpack for magic, unpack in _UNPACK.items() if start.startswith(magic)), None)
    if unpack is None:
        return file
    with file:
        data = file.read()
    try:
        return io.BytesIO(unpack(data))
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise incomplete(path, error) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _unzip(data):
    """Returns the content of the only file in a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        if len(names) != 1:
            raise ValueError(f"Expected one file in a zip file. Unpack it, and pass one of them. Received: {names[:8]}")
        return archive.read(names[0])


_UNPACK = {  # By the first bytes, since many files have another name.
    b"\x1f\x8b": gzip.decompress,
    b"PK\x03\x04": _unzip,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
}


def incomplete(path, error):
    """Returns the error for a compressed file that could not be read to its end."""
    kind = "compressed" if path.suffix.lower() != ".gz" else "gzip"
    return ValueError(f"{path}: Expected a complete {kind} file. It may have been cut or damaged. Received: {error}")


def decode_lines(file, path, encoding="utf-8", choose=False):
    """Yields the lines of a binary file as they are read, with their ends. Only newlines end lines.

    Args:
        choose: Boolean. Whether the user can pass `encoding`.
    """
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 and encoding == "utf-8" else encoding)
        except UnicodeDecodeError as error:
            advice = f" Pass `encoding` if one of these is right: {_others(line, error.start)}." if choose else ""
            raise ValueError(
                f"{path}, line {number}: Expected {encoding.upper()}.{advice} "
                f"Received: {error.object[error.start :][:8]}"
            ) from None


def _others(line, place):
    """Returns how the part of a line around a place reads in the common encodings in which it is valid."""
    found = []
    for name in ("cp1252", "gb18030", "cp1251", "shift_jis"):
        try:
            text, start = line.decode(name).strip(), len(line[:place].decode(name, "replace"))
        except UnicodeDecodeError:
            continue
        found.append(f"{text[max(start - 12, 0) :][:24]!r} ({name})")
    return ", ".join(found)


def read_whole_json(path):
    """Returns the content of a JSON file, which may be compressed by gzip."""
    return parse_json(read_text(path), path, 1)


def read_json_lines(path):
    """Returns what `json_objects` yields for a file, as a list."""
    with open_binary(path) as file:
        rows = list(json_objects(decode_lines(file, path), path))
    expect(rows, "Expected at least one row.", received="no rows", where=path)
    return rows


def json_objects(lines, path):
    """Yields `(line number, dict)` for each line of a JSON Lines file. Empty lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = parse_json(_without_end(line), path, number)
            expect(isinstance(row, dict), "Expected a JSON object.", row, where=f"{path}, line {number}")
            yield number, row


def read_rows(path, header=None):
    """Returns `(header, [(line number, fields), ...])` of a table.

    Args:
        path: Path of the file. Files named `.tsv` or `.tsv.gz` have tabs, and quotes are part of the text, as in GLUE.
            All other files have commas and quotes.
    """
    with open_binary(path) as file:
        tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
        separator = "\t" if tabs else ","
        rows = list(split_fields(decode_lines(file, path), path, separator, not tabs, len(header or ())))
    if header is None and rows:
        header = rows.pop(0)[1]
    expect(rows, "Expected at least one row.", received="no rows", where=path)
    return header, rows


def split_fields(lines, path, separator, quoted, columns=0):
    """Yields `(number of the first line, fields)` for each row of a table, from its header on.

    Empty lines are rows if there is a single column. Otherwise, empty lines of a file with quotes are skipped.

    Args:
        columns: Integer. Number of columns of a file without a header. Defaults to `0`, the number in the first row.
    """
    for number, fields in _split_csv(lines, path, separator) if quoted else _split_plain(lines, separator):
        columns = columns or len(fields)
        if fields or columns == 1:
            yield number, fields or [""]


def checked_rows(path, header, rows):
    """Yields rows of `split_fields`, or raises a `ValueError` if one has more or fewer fields than the header."""
    rows = iter(rows)
    for number, fields in rows:
        if len(fields) != len(header):
            advice = ". A text that contains the separator must be in quotes"
            if len(fields) < len(header):
                advice = ". The file may have been cut" if next(rows, None) is None else ""
            raise ValueError(
                f"{path}, line {number}: Expected {len(header)} fields, {shorten(header)}{advice}. "
                f"Received: {len(fields)} fields, {shorten(fields)}"
            )
        yield number, fields


def warn_about_size(path, size, official):
    """Warns if the number of rows of a file is not the official one, because it may have been cut or extended."""
    if size != official:
        log.warning("%s has %s rows. The official file has %s.", path, f"{size:,}", f"{official:,}")


def shorten(value):
    """Returns the `repr` of a value, or its beginning."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def get(record, name, where, kind=str):
    """Returns a field of a JSON object, or raises a `ValueError` if it is missing or not of type `kind`."""
    found = list(record) if isinstance(record, dict) else record
    expect(record is not found and name in found, f"Expected an object with {name!r}.", found, where=where)
    expect(isinstance(record[name], kind), f"Expected {name!r} as {kind.__name__}.", record[name], where=where)
    return record[name]


def parse_json(text, path, first_line):
    """Returns the value of a text in JSON, or raises a `ValueError` that names the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {first_line + error.lineno - 1}: Expected complete JSON. The file may have been cut. "
            f"Received: {error.msg} at column {error.colno}"
        ) from None


def _without_end(line):
    return line.removesuffix("\n").removesuffix("\r")


def _split_plain(lines, separator):
    for number, line in enumerate(lines, 1):
        yield number, _without_end(line).split(separator)


def _split_csv(lines, path, separator):
    lines = (part for line in lines for part in io.StringIO(line, newline=""))  # A single "\r" also ends a row.
    reader, begin = csv.reader(lines, delimiter=separator, strict=True), 1
    try:
        while (fields := _next_row(reader)) is not None:
            yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {begin}: Expected a row whose quotes are closed. The file may have been cut. If quotes are "
            f"a part of the texts, use `pandas.read_csv(path, quoting=3)`. Received: {error}"
        ) from None


def _next_row(reader):
    limit = csv.field_size_limit(2**31 - 1)  # The default is 131,072 characters.
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)
