"""Word vectors for a vocabulary, from the files of GloVe, word2vec and fastText."""

import collections
import contextlib
import dataclasses
import functools
import gzip
import logging
import os
import pathlib
import re
import reprlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from keras_transfer.checkpoints.tensors import CheckpointError
from keras_transfer.core.expect import expect, expects, integer, one_of, raising
from keras_transfer.core.files import atomic_file

log = logging.getLogger("keras_transfer")
POLICIES = ("zeros", "mean", "random", "error")

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


# === Files: each format yields rows ===


@contextlib.contextmanager
def _opened(path):
    """Opens a file, and unzips it if it is gzipped."""
    with open(path, "rb") as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        rule = f"{path} is truncated or not a gzip file. Download it again."
        damage = raising(rule, EOFError, gzip.BadGzipFile, zlib.error, error=CheckpointError)
        with damage, gzip.open(file) as unzipped:
            yield unzipped


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
        rule = f"{where}: A row must have a word and {dim or 'some'} numbers, {hint}."
        raise CheckpointError(f"{rule} Received: {line.count(b' ')} numbers after the word, {line[:60]!r}")
    return parts[0], b" ".join(parts[1:])


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


def _binary_rows(file, path, dim, has_header):
    """Yields rows of a word, a space and `dim` float32 numbers, which some programs end with a line break."""
    size, buffer, at, number = 4 * dim, b"", 0, 1
    while True:
        where, space = f"{path}, row {number}", buffer.find(b" ", at)
        word = buffer[at : space if space >= 0 else None].lstrip(b"\n")
        if len(word) > _LONGEST_WORD:
            raise CheckpointError(f"{where}: The word is missing. Check the header. Received: {word[:30]!r}")
        end = space + 1 + size
        if space >= 0 and end <= len(buffer):
            yield where, _decoded(word, where), functools.partial(_from_bytes, buffer[space + 1 : end])
            at, number = end, number + 1
        elif more := file.read(_CHUNK):
            buffer, at = buffer[at:] + more, 0
        else:
            break
    left = buffer[at:].strip(b"\n")
    rule = (
        f"{where}: The file ends in the middle of a row, which is a word and {size} bytes. The file is truncated, or "
        "the header is wrong."
    )
    expect(not left, rule, received=f"{len(left)} bytes", error=CheckpointError)


def _from_bytes(vector):
    return np.frombuffer(vector, "<f4").astype("float32")


class Format(NamedTuple):
    """A format of files of word vectors.

    Attributes:
        has_header: Boolean. Whether the first line has the number of words and the number of dimensions.
        rows: Function of the open file after its header, its path, the number of dimensions, and `has_header`, that
            yields what `read_rows` yields.
    """

    has_header: bool
    rows: Callable


FORMATS = {
    "glove": Format(False, _text_rows),
    "fasttext": Format(True, _text_rows),
    "word2vec": Format(True, _text_rows),
    "word2vec_binary": Format(True, _binary_rows),
}


def _read_rows(path, format, dim):
    """Yields `(where, word, read)` for each row of a file, where `read()` returns its vector, float32 `[dim]`.

    A word may contain spaces: it ends before the last `dim` numbers. All rows are counted and their widths checked. The
    numbers are parsed only if `read` is called.

    Args:
        dim: Integer. Width of the vectors. `None` for the width in the header or in the first row.
    """
    with _opened(path) as file:
        head = file.peek(_CHUNK)
        expect(head.strip(), f"{path} contains no word vectors.", received="an empty file", error=CheckpointError)
        other = next((what for magic, what in _OTHER_FILES.items() if head.startswith(magic)), None)
        expect(
            other is None, f"{path} must be text or word2vec's binary format.", received=other, error=CheckpointError
        )
        line, _, rest = head.partition(b"\n")
        header = tuple(map(int, line.split())) if re.fullmatch(rb"\s*\d+\s+\d+\s*", line) else None
        if format == "auto":
            first = rest.partition(b"\n")[0].rstrip().rsplit(b" ", header[1] if header else 1)
            is_text = len(first) > 1 and all(map(_NUMBER.fullmatch, first[1:]))
            binary = not is_text and bool(_CONTROL.search(rest, 0, _LONGEST_WORD))
            format = "glove" if header is None else "word2vec_binary" if binary else "word2vec"
        has_header, rows_of = FORMATS[format]
        count = None
        if has_header:
            rule = f"{path}, line 1: A {format} file must begin with the number of words and the number of dimensions."
            expect(header is not None, rule, line[:60], error=CheckpointError)
            count, width = header
            rule = f"{path}: `embedding_dim` must be {width} as in the header, above 0."
            expect(width >= 1 and dim in (None, width), rule, received=f"embedding_dim={dim}", error=CheckpointError)
            dim = width
            file.readline()
        number = 0
        for number, row in enumerate(rows_of(file, path, dim, has_header), 1):  # noqa: B007 (used after the loop)
            yield row
        rule = f"{path}: The header specifies {count} words. The file is truncated, or the header is wrong."
        expect(count in (None, number), rule, received=f"{number} rows", error=CheckpointError)


# === Words and their vectors ===


@dataclasses.dataclass
class Coverage:
    """Reports which words of a vocabulary have vectors in a file. It prints as a table.

    Attributes:
        exact: Integer. Number of words found as they are written.
        folded: Dict from each word found by case folding to the word in the file.
        missing: List of the words that were not found.
        unknown: String. The policy that gave vectors to the missing words.
        duplicates: List of the words that occur more than once in the file. The first vector is used.
    """

    exact: int
    folded: dict = dataclasses.field(default_factory=dict)
    missing: list = dataclasses.field(default_factory=list)
    unknown: str = "zeros"
    duplicates: list = dataclasses.field(default_factory=list)

    def __str__(self):
        total = self.exact + len(self.folded) + len(self.missing)

        def line(count, what, words):
            shown = ", ".join(words[:5]) + (", ..." if len(words) > 5 else "")
            return f"{count:9,}  {count / total:6.1%}  {what}" + (f": {shown}" if shown else "")

        pairs = [f"{word} ({other})" for word, other in self.folded.items()]
        lines = [f"{total:9,}  words", line(self.exact, "found exactly", [])]
        lines.append(line(len(pairs), "found by case folding", pairs))
        lines.append(line(len(self.missing), f"missing ({self.unknown})", self.missing))
        if self.duplicates:
            lines.append(line(len(self.duplicates), "more than once in the file, first used", self.duplicates))
        return "\n".join(lines)


class WordVectors:
    """Words and their vectors: row `i` of `vectors` belongs to `words[i]`.

    Args:
        words: List of strings without duplicates.
        vectors: Array of shape `[words, dim]` of finite numbers.
        coverage: `Coverage`. Defaults to `None`, which means that every word was found.
        unknown_vector: Array of shape `[dim]`, the vector of all other words. Defaults to `None`, zeros.

    Attributes:
        embedding_dim: Integer. Width of the vectors.

    Raises:
        ValueError: If words are not strings or occur twice, if numbers are not finite, or if shapes do not match.

    Example:
    ```python
    vectors = keras_transfer.checkpoints.WordVectors(["king", "queen", "cat"], [[1, 0.1], [1, 0.2], [0, 1]])
    vectors.nearest("king", k=1)  # [("queen", 0.995...)]
    ```
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: np.ndarray | Sequence,
        *,
        coverage: Coverage | None = None,
        unknown_vector: np.ndarray | Sequence | None = None,
    ):
        self.words = _checked_words(words, "words")
        self.vectors = np.array(vectors, "float32")
        fits = self.vectors.ndim == 2 and len(self.vectors) == len(self.words) and self.vectors.size
        sizes = {"words": len(self.words), "vectors": self.vectors.shape}
        expect(fits, "`vectors` must have the shape [words, dim].", **sizes)
        bad = [self.words[row] for row in np.flatnonzero(~np.isfinite(self.vectors).all(axis=1))]
        expect(not bad, "`vectors` must be finite, without NaN and infinity.", words=bad[:5])
        self.embedding_dim = self.vectors.shape[1]
        self.coverage = coverage or Coverage(len(self.words))
        self.unknown_vector = np.array(
            np.zeros(self.embedding_dim) if unknown_vector is None else unknown_vector, "float32"
        )
        fits = self.unknown_vector.shape == (self.embedding_dim,) and np.isfinite(self.unknown_vector).all()
        rule = f"`unknown_vector` must be finite and of shape ({self.embedding_dim},)."
        expect(fits, rule, unknown_vector=self.unknown_vector.shape)
        self.vectors.setflags(write=False)  # the unit vectors are computed once
        self._rows = {word: row for row, word in enumerate(self.words)}
        self._unit = None

    @classmethod
    @expects(format=one_of("auto", *FORMATS), unknown=one_of(*POLICIES))
    def load(
        cls,
        path: str | os.PathLike,
        *,
        vocabulary: Sequence[str] | None = None,
        format: str = "auto",
        unknown: str = "zeros",
        case_folding: bool = True,
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> Self:
        """Reads a file of word vectors and keeps the vectors of a vocabulary.

        The file is streamed, so only the vectors that are kept need memory. If a word occurs more than once in the
        file, its first vector is used, and a warning is logged.

        Args:
            path: String or path. A text file, with a header (`"fasttext"`, `"word2vec"`) or without (`"glove"`), or a
                file in word2vec's binary format. It may be gzipped.
            vocabulary: List of strings, the words to keep in order. Defaults to `None`, all words of the file.
            format: String, one of `"auto"`, `"glove"`, `"fasttext"`, `"word2vec"` and `"word2vec_binary"`. Defaults to
                `"auto"`, which detects the format.
            unknown: String. The vector of words that the file lacks: `"zeros"`; `"mean"`, the mean of the vectors
                found; `"random"`, uniform with their variance in each dimension (Kim 2014); or `"error"` to raise an
                error. Defaults to `"zeros"`.
            case_folding: Boolean. Whether a word that the file lacks gets the vector of the first word that differs
                only in case ("Film", "film"). Defaults to `True`.
            embedding_dim: Integer. Width of the vectors, for a file without a header whose first word has spaces.
                Defaults to `None`.
            seed: Integer. Seed of `"random"`. Defaults to `0`.

        Returns:
            A `WordVectors`. Its `coverage` reports which words were found.

        Raises:
            CheckpointError: If the file is empty, truncated or of another format, if its rows have different widths,
                if its header is wrong, if numbers are not finite, or if it has none of the vocabulary's words (with
                `"error"`, if it lacks any).
            ValueError: If an argument is invalid.

        Example:
        ```python
        import pathlib

        pathlib.Path("glove.txt").write_text("the 0.1 0.2\\nfilm 0.3 0.4\\n")
        vectors = keras_transfer.checkpoints.WordVectors.load("glove.txt", vocabulary=["Film", "flim"], unknown="mean")
        print(vectors.coverage)
        ```

        Source: https://nlp.stanford.edu/projects/glove, https://fasttext.cc/docs/en/english-vectors.html,
        https://code.google.com/archive/p/word2vec.
        """
        rows = _read_rows(path, format, embedding_dim)
        return cls(**_select(rows, path, vocabulary, unknown, case_folding, seed))

    @classmethod
    @expects(unknown=one_of(*POLICIES))
    def from_arrays(
        cls,
        words: Sequence[str] | str | os.PathLike,
        vectors: np.ndarray | str | os.PathLike,
        *,
        vocabulary: Sequence[str] | None = None,
        unknown: str = "zeros",
        case_folding: bool = True,
        seed: int = 0,
    ) -> Self:
        """Creates word vectors from an array and keeps the vectors of a vocabulary.

        Args:
            words: List of strings, the words of the rows, or the path of a file with one word per line.
            vectors: Array of shape `[words, dim]`, or the path of an `.npy` file. Only the needed rows are read.
            vocabulary: List of strings. Only these words are kept. Defaults to `None`, all words.
            unknown: String. The vector of words that have none: `"zeros"`, `"mean"`, `"random"`, or `"error"` to raise
                an error. Defaults to `"zeros"`.
            case_folding: Boolean. Whether a word without a vector gets the vector of the first word that differs only
                in case. Defaults to `True`.
            seed: Integer. Seed of `"random"`. Defaults to `0`.

        Returns:
            A `WordVectors`.

        Raises:
            CheckpointError: If the vectors are not finite numbers of shape `[words, dim]`, or if there is none of the
                vocabulary's words (with `"error"`, if any is missing).
            ValueError: If an argument is invalid.

        Example:
        ```python
        np.save("vectors.npy", [[0.1, 0.2], [0.3, 0.4]])
        keras_transfer.checkpoints.WordVectors.from_arrays(["the", "film"], "vectors.npy", vocabulary=["film"])
        ```
        """
        source: Any = "the arrays"
        if isinstance(words, str | os.PathLike):
            words = pathlib.Path(words).read_text("utf-8").removesuffix("\n").split("\n")
        if isinstance(vectors, str | os.PathLike):
            source = vectors
            rule = f"{source} must be an .npy file of numbers."
            with raising(rule, ValueError, EOFError, error=CheckpointError):
                vectors = np.load(vectors, mmap_mode="r")
        vectors, words = np.asanyarray(vectors), list(words)
        fits = vectors.ndim == 2 and len(vectors) == len(words) and vectors.dtype.kind in "fiu"
        received = f"{len(words)} words, {vectors.dtype} of shape {vectors.shape}"
        expect(fits, f"{source} must contain numbers of shape [words, dim].", received=received, error=CheckpointError)
        rows = (
            (f"{source}, row {row}", word, lambda row=row: np.array(vectors[row], "float32"))
            for row, word in enumerate(words)
        )
        return cls(**_select(rows, source, vocabulary, unknown, case_folding, seed))

    def __len__(self):
        return len(self.words)

    def __contains__(self, word):
        return word in self._rows

    def __getitem__(self, word):
        if word not in self._rows:
            raise KeyError(f"There is no vector for this word. Check with `word in vectors`. Received: {word!r}")
        return self.vectors[self._rows[word]]

    def __repr__(self):
        return f"<WordVectors of {len(self):,} words, {self.embedding_dim} dimensions>"

    def nearest(self, word: str, k: int = 10) -> list:
        """Returns the words whose vectors have the largest cosine similarity to a word's vector.

        Args:
            word: String, one of the words, or a vector of shape `[dim]`. The result does not include the word itself.
            k: Integer. Number of words. Defaults to `10`.

        Returns:
            List of `(word, cosine)`, best first.

        Raises:
            KeyError: If the word has no vector.
            ValueError: If the vector is zero or has another width, or if `k` is less than 1.

        Example:
        ```python
        vectors = keras_transfer.checkpoints.WordVectors(["king", "queen", "cat"], [[1, 0.1], [1, 0.2], [0, 1]])
        vectors.nearest([0.0, 2.0], k=1)  # [("cat", 1.0)]
        ```
        """
        if isinstance(word, str):
            return self._ranked(self[word], k, [word])
        vector = np.asarray(word, "float32")
        rule = f"`word` must be a string or a vector of {self.embedding_dim} numbers."
        expect(vector.shape == (self.embedding_dim,), rule, word=vector.shape)
        return self._ranked(vector, k, [])

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list:
        """Returns the words that are to `c` as `b` is to `a`: "man" is to "king" as "woman" is to "queen".

        They have the largest cosine with `b - a + c` of unit vectors. `a`, `b` and `c` are left out (3CosAdd).

        Args:
            a: String. A word that has a vector.
            b: String. A word that has a vector.
            c: String. A word that has a vector.
            k: Integer. Number of words. Defaults to `10`.

        Returns:
            List of `(word, cosine)`, best first.

        Raises:
            KeyError: If a word has no vector.
            ValueError: If a vector is zero, or if `k` is less than 1.

        Example:
        ```python
        words = ["man", "king", "woman", "queen"]
        vectors = keras_transfer.checkpoints.WordVectors(words, [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
        vectors.analogy("man", "king", "woman", k=1)  # [("queen", ...)]
        ```

        Source: Mikolov et al. 2013, "Linguistic regularities in continuous space word representations"; Levy &
        Goldberg 2014, equation 3.
        """
        a_unit, b_unit, c_unit = (_unit(self[word], word) for word in (a, b, c))
        return self._ranked(b_unit - a_unit + c_unit, k, [a, b, c])

    def _ranked(self, vector, k, excluded):
        integer(1).check("k", k)
        if self._unit is None:
            lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
            self._unit = self.vectors / np.where(lengths == 0, 1, lengths)
        scores = self._unit @ _unit(vector, "vector")
        best = np.argsort(-scores, kind="stable")[: k + len(excluded)]
        found = [(self.words[row], float(scores[row])) for row in best if self.words[row] not in excluded]
        return found[:k]

    def table(self) -> np.ndarray:
        """Returns an embedding table: zeros for padding, the unknown word, then the words.

        Returns:
            A float32 array of shape `[words + 2, dim]`.
        """
        return np.concatenate([np.zeros((1, self.embedding_dim), "float32"), self.unknown_vector[None], self.vectors])

    def embedding_layer(
        self, trainable: bool = False, mask_zero: bool = False, dtype: Any = None, name: str | None = None
    ) -> keras.layers.Embedding:
        """Returns `table()` as a layer, for the ids of `text.WordPreprocessor(vectors.words)`.

        Args:
            trainable: Boolean. Whether the vectors train. Defaults to `False`.
            mask_zero: Boolean. Whether the layer computes a Keras mask for the id 0, padding. Defaults to `False`.
            dtype: Dtype of the layer. Defaults to `None`, the global policy.
            name: String. Name of the layer. Defaults to `None`.

        Returns:
            A `keras.layers.Embedding`.

        Example:
        ```python
        vectors = keras_transfer.checkpoints.WordVectors(["king", "queen"], [[1, 0.1], [1, 0.2]])
        vectors.embedding_layer()(np.array([[2, 3, 1, 0]]))
        ```
        """
        table = self.table()
        layer = keras.layers.Embedding(*table.shape, mask_zero=mask_zero, dtype=dtype, name=name)
        layer.build()
        layer.set_weights([table])
        layer.trainable = trainable
        return layer

    def save(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Writes words and vectors in the text format of word2vec and fastText.

        `load` returns exactly the same numbers. The coverage and `unknown_vector` are not written.

        Args:
            path: String or path. A file in a folder that exists, gzipped if it ends in `.gz`.
            overwrite: Boolean. Whether to replace a file that exists. Defaults to `False`.

        Raises:
            FileExistsError: If the file exists and `overwrite=False`.
            ValueError: If a word is a phrase that ends in a number, which could not be read from the file.

        Example:
        ```python
        keras_transfer.checkpoints.WordVectors(["king", "queen"], [[1, 0.1], [1, 0.2]]).save("vectors.vec")
        ```
        """
        rule = "The file exists. Pass another path or `overwrite=True`."
        expect(overwrite or not os.path.lexists(path), rule, str(path), error=FileExistsError)
        rule = (
            "A word must not end in a space and a number, because its vector follows in the row. Replace the space, as "
            "in 'route_66'."
        )
        wrong = [word for word in self.words if _NUMBER.fullmatch(word.encode().rpartition(b" ")[2]) and " " in word]
        expect(not wrong, rule, words=wrong[:5])
        with atomic_file(path) as raw:
            file = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if str(path).endswith(".gz") else raw
            file.write(f"{len(self)} {self.embedding_dim}\n".encode())
            for word, vector in zip(self.words, self.vectors):
                file.write(f"{word} {' '.join(f'{number:.9g}' for number in vector)}\n".encode())
            if file is not raw:
                file.close()


def _unit(vector, name):
    length = np.linalg.norm(vector)
    fits = length != 0 and np.isfinite(length)
    expect(fits, "A vector must be finite and not zero to have a cosine similarity.", vector=name, length=float(length))
    return vector / length


def _checked_words(words, name):
    expect(not isinstance(words, str | bytes), f"`{name}` must be a list of words.", **{name: words})
    words = list(words)
    wrong = [word for word in words if not isinstance(word, str) or not word or "\n" in word]
    expect(not wrong, f"`{name}` must contain non-empty strings without line breaks.", **{name: wrong[:3]})
    twice = [word for word, count in collections.Counter(words).items() if count > 1]
    expect(not twice, f"`{name}` must not contain duplicates.", duplicates=len(twice), words=twice[:3])
    return words


def _select(rows, source, vocabulary, unknown, case_folding, seed):
    """Returns the arguments of `WordVectors` for a vocabulary, from all rows of a file."""
    if vocabulary is not None:
        vocabulary = _checked_words(vocabulary, "vocabulary")
    wanted = set(vocabulary or ())
    folds = {word.casefold() for word in wanted} if case_folding else set()
    found, first, duplicates = {}, {}, []
    for where, word, read in rows:
        if vocabulary is not None and word not in wanted:
            fold = word.casefold()
            if fold not in folds or fold in first:
                continue
        if word in found:
            duplicates.append(word)
            continue
        vector = read()
        if not np.isfinite(vector).all():
            raise CheckpointError(f"{where}: Numbers must be finite. Received: NaN or infinity for {word!r}")
        found[word] = vector
        if folds:
            first.setdefault(word.casefold(), word)
    if duplicates:
        log.warning("%s: For %d duplicate words, the first vector is used: %s", source, len(duplicates), duplicates[:5])
    rule = f"{source} must contain at least one word{'' if vocabulary is None else ' of `vocabulary`'}."
    expect(found, rule, received=f"vocabulary={reprlib.repr(vocabulary)}", error=CheckpointError)
    words = vocabulary or list(found)
    origin = {word: word if word in found else first.get(word.casefold()) if folds else None for word in words}
    missing = [word for word, other in origin.items() if other is None]
    received = f"{len(missing)} of {len(words)} words missing, {missing[:5]}"
    if unknown == "error":
        expect(
            not missing,
            f"{source} must contain all words if unknown='error'.",
            received=received,
            error=CheckpointError,
        )
    known = np.stack([found[other] for other in origin.values() if other is not None])
    instead = _instead(unknown, known, len(missing) + 1, seed)
    fill = iter(instead[1:])
    vectors = np.stack([next(fill) if other is None else found[other] for other in origin.values()])
    folded = {word: other for word, other in origin.items() if other not in (None, word)}
    exact = len(words) - len(folded) - len(missing)
    coverage = Coverage(exact, folded, missing, unknown, duplicates)
    return {"words": words, "vectors": vectors, "coverage": coverage, "unknown_vector": instead[0]}


def _instead(unknown, known, count, seed):
    """Returns vectors, `[count, dim]`, for words that have none of their own."""
    if unknown == "mean":
        return np.repeat(known.mean(axis=0, dtype="float64")[None].astype("float32"), count, axis=0)
    if unknown == "random":  # a uniform distribution's variance is a third of its bound squared
        bound = np.sqrt(3) * known.std(axis=0, dtype="float64")
        return np.random.default_rng(seed).uniform(-bound, bound, (count, len(bound))).astype("float32")
    return np.zeros((count, known.shape[1]), "float32")
