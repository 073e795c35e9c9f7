"""Tokenizes documents and writes the shards of a corpus. A run that was stopped goes on where it was."""

import concurrent.futures
import hashlib
import itertools

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.data.shards import read_counts, write_shard

_CHUNK = 2**20  # Characters that are tokenized at once.


def build_shards(documents, tokenize, folder, dtype, separator, shard_size, workers, verbose):
    """Writes the shards that a folder lacks. They are the same whether or not the process was stopped in between.

    Raises a `ValueError` if the shards of the folder begin with other documents.

    Args:
        documents: Iterator of lists of lines.
        tokenize: Function from a list of texts to `(ids, lengths)`, integer arrays.
        separator: List of integers. The ids at the end of each document.
        shard_size: Integer. Number of ids from which on a shard is complete.
    """
    finished = read_counts(folder)
    number, done = len(finished), sum(counts["read"] for counts in finished)
    documents = iter(documents)
    for counts in finished:
        digest = _Digest()
        for document in itertools.islice(documents, counts["read"]):
            digest.add(document)
        _check(digest.facts().items() <= counts.items(), folder)
    progress = keras.utils.Progbar(None, unit_name="document", verbose=verbose)
    buffer = _Buffer(separator, dtype)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for chunk, (ids, lengths) in _in_order(pool, tokenize, _chunks(documents), workers):
            lines = iter(np.split(ids.astype(dtype), np.cumsum(lengths)[:-1]))
            for document in chunk:
                buffer.add(document, list(itertools.islice(lines, len(document))))
                if buffer.size >= shard_size:
                    write_shard(folder, number, buffer.columns(), **buffer.facts())
                    number, buffer = number + 1, _Buffer(separator, dtype)
            done += len(chunk)
            progress.update(done)
    if buffer.size:
        write_shard(folder, number, buffer.columns(), **buffer.facts())
    progress.update(done, finalize=True)


def check_begin(documents, counts, folder):
    """Raises a `ValueError` if a source does not begin with the document that a corpus begins with."""
    digest = _Digest()
    for document in itertools.islice(documents, 1):
        digest.add(document)
    _check(digest.facts()["first"] == counts["first"], folder)


def _check(same, folder):
    rule = "The folder has a corpus of other texts. Choose another folder, or remove it."
    expect(same, rule, folder=str(folder))


class _Digest:
    """What is remembered of the documents of a shard, to tell them from others."""

    def __init__(self):
        self._read, self._first, self._all = 0, None, hashlib.sha256()

    def add(self, document):
        self._read += 1
        self._all.update("\n".join(document).encode(errors="surrogatepass") + b"\0")
        self._first = self._first or self._all.hexdigest()

    def facts(self):
        """Returns the number of documents, also of those without ids, and digests of the first one and of all."""
        return {"read": self._read, "first": self._first, "texts": self._all.hexdigest()}


class _Buffer:
    """The ids of a shard that is not written yet."""

    def __init__(self, separator, dtype):
        self._separator, self._empty = np.array(separator, dtype), np.zeros(0, dtype)
        self._parts, self._documents, self._lines = [], [], []
        self.size, self._digest = 0, _Digest()

    def add(self, document, lines):
        """Adds a document, given the ids of each of its lines."""
        self._digest.add(document)
        if not (lines := [line for line in lines if len(line)]):
            return
        lines[-1] = np.concatenate([lines[-1], self._separator])
        for line in lines:
            self._parts.append(line)
            self.size += len(line)
            self._lines.append(self.size)
        self._documents.append(self.size)

    def facts(self):
        return self._digest.facts()

    def columns(self):
        return {
            "ids": np.concatenate([self._empty, *self._parts]),
            "documents": np.array(self._documents, "int64"),
            "lines": np.array(self._lines, "int64"),
        }


def _chunks(documents):
    """Yields lists of documents with about as many characters each."""
    part, size = [], 0
    for document in documents:
        part.append(document)
        size += sum(map(len, document)) + 1
        if size >= _CHUNK:
            yield part
            part, size = [], 0
    if part:
        yield part


def _in_order(pool, tokenize, chunks, workers):
    """Yields `(chunk, what tokenize returns for its lines)` in the order of the chunks, a few of them ahead."""
    waiting = []
    for chunk in chunks:
        waiting.append((chunk, pool.submit(tokenize, [line for document in chunk for line in document])))
        if len(waiting) > workers:
            first, future = waiting.pop(0)
            yield first, future.result()
    for chunk, future in waiting:
        yield chunk, future.result()
