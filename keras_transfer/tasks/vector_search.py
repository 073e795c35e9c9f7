"""Exact search for the vectors with the highest dot products, in blocks that fit into the cache."""

import numpy as np

QUERIES, CORPUS = 256, 16_384  # Vectors in a block.
WIDTH = 64  # Scores in a group. Only groups with a high maximum are looked into.


def top_k(queries, corpus, k):
    """Returns the `k` highest dot products of each query with a corpus, highest first, and where they are.

    Of equal scores, that of the lower index comes first.

    Args:
        queries: Float32 array [queries, dim].
        corpus: Float32 array [corpus, dim], of at least `k` vectors.
        k: Integer, at least 1.

    Returns:
        Float32 array [queries, k] of scores, and an int64 array of the same shape of indices.
    """
    scores, indices = np.empty((len(queries), k), "float32"), np.empty((len(queries), k), "int64")
    padded = -(-min(CORPUS, len(corpus)) // WIDTH) * WIDTH
    buffer = np.empty((min(QUERIES, len(queries)), padded), "float32")
    for start in range(0, len(queries), QUERIES):
        block = queries[start : start + QUERIES]
        found = []
        for first in range(0, len(corpus), CORPUS):
            part, table = corpus[first : first + CORPUS], buffer[: len(block)]
            np.matmul(block, part.T, out=table[:, : len(part)])
            table[:, len(part) :] = -np.inf
            row, index, score = _candidates(table, min(k, len(part)))
            found.append((row, index + first, score))
        row, index, score = (np.concatenate(column) for column in zip(*found))
        order = np.lexsort((index, -score, row))
        firsts = np.searchsorted(row[order], np.arange(len(block)))
        best = order[firsts[:, None] + np.arange(k)]
        scores[start : start + QUERIES], indices[start : start + QUERIES] = score[best], index[best]
    return scores, indices


def _candidates(table, k):
    """Returns the rows, columns and values of all entries of a table that are among the `k` highest of their row.

    The `k`-th highest maximum of the groups of a row is at most the `k`-th highest value of the row. Only groups whose
    maximum is not lower can contain one of the `k` highest, and all others are read just once.
    """
    rows, groups = len(table), table.shape[1] // WIDTH
    table = table.reshape(rows, WIDTH, groups)  # Column `i * groups + j` belongs to group `j`.
    maxima = table.max(axis=1)
    if k > groups:
        lowest = np.full(rows, -np.inf, "float32")
    else:
        lowest = np.partition(maxima, groups - k, axis=1)[:, groups - k]
    row, group = np.nonzero(maxima >= lowest[:, None])
    values = table[row, :, group]
    hit, place = np.nonzero((values >= lowest[row, None]) & (values > -np.inf))
    return row[hit], place * groups + group[hit], values[hit, place]
