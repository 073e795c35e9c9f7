"""Reading files of word vectors a row at a time: GloVe, fastText and word2vec text, word2vec binary."""

import contextlib
import functools
import gzip
import re
import zlib

import numpy as np

from keras_transfer.checkpoints.tensors import CheckpointError

# The formats' names, and whether a file of theirs begins with a header and is binary.
FORMATS = {
    "glove": (False, False),
    "fasttext": (True, False),
    "word2vec": (True, False),
    "word2vec_binary": (True, True),
}

_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\xba\x16O/": "a fastText model: take the .vec file that belongs to it",
    b"\x93NUMPY": "a numpy array, which has no words: WordVectors.from_arrays(words, path)",
}
_CHUNK = 1 << 20
_LONGEST_WORD = 4096  # bytes; what is longer in a binary file is no word
# Text files have no control characters but these, and binary vectors soon have others.
_CONTROL = re.compile(rb"[^\t\n\r\x20-\xff]")
_NUMBER = re.compile(rb"[-+]?(\d+\.\d*|\.\d+|\d+)(e[-+]?\d+)?", re.IGNORECASE)


def read_rows(path, format="auto", dim=None):
    """Yields `(where, word, read)` for each row of a file, where `read()` returns its vector, float32 [dim].

    A word may hold spaces: it is what stands before the last `dim` numbers. All rows are counted and their widths
    checked; the numbers are read only where `read` is called.

    Args:
        path: path of a file, which may be gzipped.
        format: `"glove"`, `"fasttext"`, `"word2vec"`, `"word2vec_binary"` or `"auto"`.
        dim: int, the width of the vectors; None for what the header, else the first row says.

    Raises:
        CheckpointError: the file is empty, truncated, of another format, or a row does not fit the others.

    Example:
    ```python
    import pathlib

    from keras_transfer.checkpoints.word_vector_files import read_rows

    pathlib.Path("glove.txt").write_text("the 0.1 0.2\\ncat 0.3 0.4\\n")
    [(word, read()) for _, word, read in read_rows("glove.txt")]
    ```
    """
    if format != "auto" and format not in FORMATS:
        raise ValueError(f"`format` must be one of {('auto', *FORMATS)}. Received: {format!r}")
    with _opened(path) as file:
        head = file.peek(_CHUNK)
        if not head.strip():
            raise CheckpointError(f"{path} holds no word vectors. Received: an empty file")
        for magic, what in _OTHER_FILES.items():
            if head.startswith(magic):
                raise CheckpointError(f"{path} must be text or word2vec's binary format. Received: {what}")
        line, _, rest = head.partition(b"\n")
        header = _header(line)
        if format == "auto":
            binary = bool(_CONTROL.search(rest, 0, _LONGEST_WORD))
            format = "glove" if header is None else "word2vec_binary" if binary else "word2vec"
        has_header, binary = FORMATS[format]
        count = None
        if has_header:
            if header is None:
                raise CheckpointError(
                    f"{path}, line 1: {format} files begin with the number of words and of dimensions. "
                    f"Received: {line[:60]!r}"
                )
            count, width = header
            if width < 1 or dim not in (None, width):
                raise CheckpointError(f"{path}: the header says {width} dimensions. Received: dim={dim}")
            dim = width
            file.readline()
        rows = _binary_rows(file, path, dim) if binary else _text_rows(file, path, dim, has_header)
        number = 0
        for number, row in enumerate(rows, 1):  # noqa: B007 (used after the loop)
            yield row
        if count is not None and number != count:
            raise CheckpointError(
                f"{path}: the header says {count} words: the file is cut off, or the header lies. "
                f"Received: {number} rows"
            )


@contextlib.contextmanager
def _opened(path):
    """The file, gunzipped where it begins as gzipped files do."""
    with open(path, "rb") as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        try:
            with gzip.open(file) as unzipped:
                yield unzipped
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CheckpointError(
                f"{path} is truncated or no gzip file: download it again. Received: {error}"
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
    """A row whose word has spaces in it, as some of GloVe's: not one with a number too many."""
    parts = line.rsplit(b" ", dim) if dim else []
    if len(parts) <= dim or not dim or _NUMBER.fullmatch(parts[0].rpartition(b" ")[2]):
        hint = "as the header says" if has_header else "as in line 1; of a file with a header, pass its `format`"
        raise CheckpointError(
            f"{where}: a row is a word and {dim or 'some'} numbers, {hint}. "
            f"Received: {max(line.count(b' '), 0)} after the word: {line[:60]!r}"
        )
    return parts[0], b" ".join(parts[1:])


def _parsed(numbers, where):
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which is an error of its own
            return np.array([float(number) for number in numbers.split(b" ")], "float32")
    except ValueError as error:
        raise CheckpointError(f"{where}: behind the word there must be numbers. Received: {error}") from error


def _decoded(word, where):
    try:
        text = word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: words must be UTF-8. Received: {word[:60]!r}") from error
    if not text:
        raise CheckpointError(f"{where}: there is no word. Received: a row that begins with a space")
    return text


def _binary_rows(file, path, dim):
    """Rows of a word, a space and `dim` float32 numbers; some programs write a line end behind them."""
    size, buffer, at, number = 4 * dim, b"", 0, 0
    while True:
        number += 1
        where = f"{path}, row {number}"
        while (space := buffer.find(b" ", at)) < 0 or len(buffer) < space + 1 + size:
            if space < 0 and len(buffer) - at > _LONGEST_WORD:
                raise CheckpointError(f"{where}: there is no word: does the header lie? Received: {buffer[at:][:30]!r}")
            if not (more := file.read(_CHUNK)):
                break
            buffer, at = buffer[at:] + more, 0
        if space < 0 or len(buffer) < space + 1 + size:
            if left := buffer[at:].strip(b"\n"):
                raise CheckpointError(
                    f"{where}: the file ends in the middle of a row of a word and {size} bytes: it is cut off, or the "
                    f"header lies. Received: {len(left)} bytes"
                )
            return
        word = buffer[at:space].lstrip(b"\n")
        if len(word) > _LONGEST_WORD:
            raise CheckpointError(f"{where}: there is no word: does the header lie? Received: {word[:30]!r}")
        vector = buffer[space + 1 : space + 1 + size]
        yield where, _decoded(word, where), functools.partial(_from_bytes, vector)
        at = space + 1 + size


def _from_bytes(vector):
    return np.frombuffer(vector, "<f4").astype("float32")
