"""Tokenizes documents and writes the shards of a corpus. A run that was stopped goes on where it was."""

import concurrent.futures
import itertools

import keras
import numpy as np

from keras_transfer.corpora.shards import read_counts, write_shard

_CHUNK = 2**20  # Characters that are tokenized at once.


def build_shards(documents, tokenize, folder, dtype, separator, shard_size, workers, verbose):
    """Writes the shards that a folder lacks. They are the same whether or not the process was stopped in between.

    Args:
        documents: Iterator of lists of lines.
        tokenize: Function from a list of texts to `(ids, lengths)`, integer arrays.
        folder: Path.
        dtype: NumPy's dtype of the ids.
        separator: List of integers. The ids at the end of each document.
        shard_size: Integer. Number of ids from which on a shard is complete.
        workers: Integer. Number of threads that tokenize.
        verbose: Integer. Whether to show progress.
    """
    finished = read_counts(folder)
    number, done = len(finished), sum(counts["read"] for counts in finished)
    documents = itertools.islice(documents, done, None)
    progress = keras.utils.Progbar(None, unit_name="document", verbose=verbose)
    buffer = _Buffer(separator, dtype)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for chunk, (ids, lengths) in _in_order(pool, tokenize, _chunks(documents), workers):
            lines = iter(np.split(ids.astype(dtype), np.cumsum(lengths)[:-1]))
            for document in chunk:
                buffer.add(list(itertools.islice(lines, len(document))))
                if buffer.size >= shard_size:
                    write_shard(folder, number, buffer.columns(), read=buffer.read)
                    number, buffer = number + 1, _Buffer(separator, dtype)
            done += len(chunk)
            progress.update(done)
    if buffer.size:
        write_shard(folder, number, buffer.columns(), read=buffer.read)
    progress.update(done, finalize=True)


class _Buffer:
    """The ids of a shard that is not written yet.

    Attributes:
        size: Integer. Number of ids.
        read: Integer. Number of documents, also of those without ids.
    """

    def __init__(self, separator, dtype):
        self._separator, self._empty = np.array(separator, dtype), np.zeros(0, dtype)
        self._parts, self._documents, self._lines = [], [], []
        self.size = self.read = 0

    def add(self, lines):
        """Adds a document, given the ids of each of its lines."""
        self.read += 1
        if not (lines := [line for line in lines if len(line)]):
            return
        lines[-1] = np.concatenate([lines[-1], self._separator])
        for line in lines:
            self._parts.append(line)
            self.size += len(line)
            self._lines.append(self.size)
        self._documents.append(self.size)

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
