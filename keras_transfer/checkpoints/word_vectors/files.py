"""Reads files of word vectors row by row: the text of GloVe, fastText and word2vec, and word2vec's binary format."""

import contextlib
import functools
import gzip
import re
import zlib

import numpy as np

from keras_transfer.checkpoints.base import CheckpointError

# Whether the files of a format begin with a header, and whether they are binary.
FORMATS = {
    "glove": (False, False),
    "fasttext": (True, False),
    "word2vec": (True, False),
    "word2vec_binary": (True, True),
}

_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive. Unpack it first",
    b"\xba\x16O/": "a fastText model. Use its .vec file",
    b"\x93NUMPY": "a numpy array without words. Use WordVectors.from_arrays(words, path)",
}
_CHUNK = 1 << 20
_LONGEST_WORD = 4096  # bytes; a longer "word" in a binary file indicates a wrong header
# Text files contain no control characters other than these. Binary vectors soon contain others.
_CONTROL = re.compile(rb"[^\t\n\r\x20-\xff]")
_NUMBER = re.compile(rb"[-+]?(\d+\.\d*|\.\d+|\d+)(e[-+]?\d+)?", re.IGNORECASE)


def read_rows(path, format="auto", dim=None):
    """Yields `(where, word, read)` for each row of a file, where `read()` returns its vector, float32 `[dim]`.

    A word may contain spaces: it ends before the last `dim` numbers. All rows are counted and their widths checked. The
    numbers are parsed only if `read` is called.

    Args:
        path: String or path. A file, which may be gzipped.
        format: String. A key of `FORMATS`, or `"auto"`. Defaults to `"auto"`.
        dim: Integer. Width of the vectors. Defaults to `None`, the width in the header or in the first row.
    """
    if format != "auto" and format not in FORMATS:
        raise ValueError(f"`format` must be one of {('auto', *FORMATS)}. Received: {format!r}")
    with _opened(path) as file:
        head = file.peek(_CHUNK)
        if not head.strip():
            raise CheckpointError(f"{path} contains no word vectors. Received: an empty file")
        for magic, what in _OTHER_FILES.items():
            if head.startswith(magic):
                raise CheckpointError(f"{path} must be text or word2vec's binary format. Received: {what}")
        line, _, rest = head.partition(b"\n")
        header = _header(line)
        if format == "auto":
            first = rest.partition(b"\n")[0].rstrip().rsplit(b" ", header[1] if header else 1)
            is_text = len(first) > 1 and all(map(_NUMBER.fullmatch, first[1:]))
            binary = not is_text and bool(_CONTROL.search(rest, 0, _LONGEST_WORD))
            format = "glove" if header is None else "word2vec_binary" if binary else "word2vec"
        has_header, binary = FORMATS[format]
        count = None
        if has_header:
            if header is None:
                raise CheckpointError(
                    f"{path}, line 1: A {format} file must begin with the number of words and the number of "
                    f"dimensions. Received: {line[:60]!r}"
                )
            count, width = header
            if width < 1 or dim not in (None, width):
                raise CheckpointError(
                    f"{path}: `embedding_dim` must be {width} as in the header, above 0. Received: embedding_dim={dim}"
                )
            dim = width
            file.readline()
        rows = _binary_rows(file, path, dim) if binary else _text_rows(file, path, dim, has_header)
        number = 0
        for number, row in enumerate(rows, 1):  # noqa: B007 (used after the loop)
            yield row
        if count is not None and number != count:
            raise CheckpointError(
                f"{path}: The header specifies {count} words. The file is truncated, or the header is wrong. "
                f"Received: {number} rows"
            )


@contextlib.contextmanager
def _opened(path):
    """Opens a file, and unzips it if it is gzipped."""
    with open(path, "rb") as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        try:
            with gzip.open(file) as unzipped:
                yield unzipped
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CheckpointError(
                f"{path} is truncated or not a gzip file. Download it again. Received: {error}"
            ) from error


def _header(line):
    fields = line.split()
    return tuple(map(int, fields)) if len(fields) == 2 and all(field.isdigit() for field in fields) else None


def _text_rows(file, path, dim, has_header):
    for number, line in enumerate(file, 2 if has_header else 1):
        where = f"{path}, line {number}"
        line = line.rstrip(b" \r\n")  # fastText and word2vec end their lines with a space
        spaces = line.count(b" ")
        if dim is None:
            dim = spaces
        if spaces == dim > 0:
            at = line.index(b" ")
            word, numbers = line[:at], line[at + 1 :]
        else:
            word, numbers = _spaced_word(line, dim, where, has_header)
        yield where, _decoded(word, where), functools.partial(_parsed, numbers, where)


def _spaced_word(line, dim, where, has_header):
    """Splits a row whose word contains spaces, as in some GloVe files, but not a row with too many numbers."""
    parts = line.rsplit(b" ", dim) if dim else []
    if len(parts) <= dim or not dim or _NUMBER.fullmatch(parts[0].rpartition(b" ")[2]):
        hint = "as in the header" if has_header else "as in line 1. If the file has a header, pass its `format`"
        raise CheckpointError(
            f"{where}: A row must have a word and {dim or 'some'} numbers, {hint}. "
            f"Received: {line.count(b' ')} numbers after the word, {line[:60]!r}"
        )
    return parts[0], b" ".join(parts[1:])


def is_readable(word):
    """Returns whether `read_rows` finds a word again in a row of a text file with a header."""
    _, space, last = word.encode().rpartition(b" ")
    return not (space and _NUMBER.fullmatch(last))


def _parsed(numbers, where):
    try:
        with np.errstate(over="ignore"):  # too large a number becomes infinite, which the caller reports
            return np.array([float(number) for number in numbers.split(b" ")], "float32")
    except ValueError as error:
        raise CheckpointError(f"{where}: The word must be followed by numbers. Received: {error}") from error


def _decoded(word, where):
    try:
        text = word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: Words must be UTF-8. Received: {word[:60]!r}") from error
    if not text:
        raise CheckpointError(f"{where}: The word is missing. Received: a row that begins with a space")
    return text


def _binary_rows(file, path, dim):
    """Yields rows of a word, a space and `dim` float32 numbers, which some programs end with a line break."""
    size, buffer, at, number = 4 * dim, b"", 0, 0
    while True:
        number += 1
        where = f"{path}, row {number}"
        while (space := buffer.find(b" ", at)) < 0 or len(buffer) < space + 1 + size:
            if space < 0 and len(buffer) - at > _LONGEST_WORD:
                raise CheckpointError(f"{where}: The word is missing. Check the header. Received: {buffer[at:][:30]!r}")
            if not (more := file.read(_CHUNK)):
                break
            buffer, at = buffer[at:] + more, 0
        if space < 0 or len(buffer) < space + 1 + size:
            if left := buffer[at:].strip(b"\n"):
                raise CheckpointError(
                    f"{where}: The file ends in the middle of a row, which is a word and {size} bytes. The file is "
                    f"truncated, or the header is wrong. Received: {len(left)} bytes"
                )
            return
        word = buffer[at:space].lstrip(b"\n")
        if len(word) > _LONGEST_WORD:
            raise CheckpointError(f"{where}: The word is missing. Check the header. Received: {word[:30]!r}")
        vector = buffer[space + 1 : space + 1 + size]
        yield where, _decoded(word, where), functools.partial(_from_bytes, vector)
        at = space + 1 + size


def _from_bytes(vector):
    return np.frombuffer(vector, "<f4").astype("float32")
