"""Reading of text, JSON and CSV files, with errors that name the file and the line."""

import csv
import gzip
import io
import json
import logging
import pathlib
import zlib

log = logging.getLogger("keras_transfer")


def read_text(path):
    """Returns the text of a file in UTF-8, or of a gzip file of one.

    Raises:
        ValueError: If the file is not in UTF-8, or if it ends too early.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(
                f"{path}: Expected a complete gzip file. It may have been cut or damaged. Received: {error}"
            ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {number}: Expected UTF-8. Received: {error.object[error.start :][:8]}"
        ) from None


def read_lines(path):
    """Returns the lines, which end with a newline only. Texts can contain other characters that `splitlines` uses."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines if lines[-1] else lines[:-1]


def read_json(path):
    """Returns the content of a JSON file.

    Raises:
        ValueError: If the file is not complete JSON in UTF-8.
    """
    return _parse(read_text(path), path, 1)


def read_json_lines(path):
    """Returns `(line number, dict)` for each line of a JSON Lines file. Empty lines are skipped.

    Raises:
        ValueError: If a line is not a JSON object, or if there is none.
    """
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            row = _parse(line, path, number)
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: Expected a JSON object. Received: {line[:80]!r}")
            rows.append((number, row))
    if not rows:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return rows


def read_rows(path, header=None):
    """Returns `(header, [(line number, fields), ...])` of a table.

    Args:
        path: Path of the file. Names that end with `.tsv` or `.tsv.gz` have tabs, and quotes that are a part of the
            text, as in GLUE. All others have commas and quotes, and their empty lines are rows only if there is a
            single column.
        header: List of strings. Names of the columns of a file without a header. Defaults to `None`, the first row.

    Raises:
        ValueError: If a quote is not closed, or if there are no rows.
    """
    tabs = pathlib.Path(path).name.lower().removesuffix(".gz").endswith(".tsv")
    rows = _split_lines(path) if tabs else _split_csv(path, header)
    if header is None and rows:
        header = rows.pop(0)[1]
    if not rows:
        raise ValueError(f"{path}: Expected at least one row. Received: no rows")
    return header, rows


def check_fields(path, header, rows):
    """Raises a `ValueError` if a row of `read_rows` has another number of fields than the header."""
    for number, fields in rows:
        if len(fields) != len(header):
            cut = " The file may have been cut." if number == rows[-1][0] and len(fields) < len(header) else ""
            raise ValueError(
                f"{path}, line {number}: Expected {len(header)} fields, {shorten(header)}.{cut} "
                f"Received: {len(fields)} fields, {shorten(fields)}"
            )


def warn_about_size(path, size, official):
    """Warns if a file has another number of rows than the official one, which may have been cut or extended."""
    if size != official:
        log.warning("%s has %s rows. The official file has %s.", path, f"{size:,}", f"{official:,}")


def shorten(value):
    """Returns the `repr` of a value, or its beginning."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def get(record, name, where, kind=str):
    """Returns a field of a JSON object, or raises a `ValueError` if it is missing or of another type than `kind`."""
    if not isinstance(record, dict) or name not in record:
        received = list(record) if isinstance(record, dict) else record
        raise ValueError(f"{where}: Expected an object with {name!r}. Received: {shorten(received)}")
    if not isinstance(record[name], kind):
        raise ValueError(f"{where}: Expected {name!r} as {kind.__name__}. Received: {shorten(record[name])}")
    return record[name]


def _parse(text, path, first_line):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {first_line + error.lineno - 1}: Expected complete JSON. The file may have been cut. "
            f"Received: {error.msg} at column {error.colno}"
        ) from None


def _split_lines(path):
    return [(number, line.split("\t")) for number, line in enumerate(read_lines(path), 1)]


def _split_csv(path, header):
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    rows = []
    limit = csv.field_size_limit(2**31 - 1)  # instead of 131,072 characters
    try:
        for fields in reader:
            columns = len(header or (rows[0][1] if rows else ()))
            if fields or columns == 1:
                rows.append((reader.line_num, fields or [""]))
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: Expected CSV. The file may have been cut. Received: {error}"
        ) from None
    finally:
        csv.field_size_limit(limit)
    return rows
