"""Exact search for the vectors with the highest scores, in blocks that fit into the cache."""

import numpy as np

QUERIES, CORPUS = 256, 16_384  # Numbers of vectors in a block, whose scores fit into the cache.
WIDTH = 64  # Number of scores in a group. Only groups with a high maximum are searched.


def top_k(queries, corpus, k, lengths=None):
    """Returns the `k` highest dot products of each query with a corpus, highest first, and their indices.

    Args:
        queries: Float32 array [queries, dim].
        corpus: Float32 array [corpus, dim], of at least `k` vectors.
        k: Integer, at least 1.
        lengths: Float32 array [corpus]. Positive numbers by which the products with each vector are divided. Defaults
            to `None`, 1 for each.

    Returns:
        Float32 array [queries, k] of scores, and an int64 array of the same shape of indices.
    """
    scores, indices = np.full((len(queries), k), -np.inf, "float32"), np.zeros((len(queries), k), "int64")
    padded = -(-min(CORPUS, len(corpus)) // WIDTH) * WIDTH
    buffer = np.empty((min(QUERIES, len(queries)), padded), "float32")
    for first in range(0, len(corpus), CORPUS):
        part = corpus[first : first + CORPUS]
        for start in range(0, len(queries), QUERIES):
            rows = slice(start, start + QUERIES)
            table = buffer[: len(queries[rows])]
            np.matmul(queries[rows], part.T, out=table[:, : len(part)])
            if lengths is not None:
                table[:, : len(part)] /= lengths[first : first + CORPUS]
            table[:, len(part) :] = -np.inf
            column, score = _highest(table, min(k, len(part)))
            # Earlier scores have lower indices, so a stable sort keeps equal scores in the order of their indices.
            score = np.concatenate([scores[rows], score], axis=1)
            order = np.argsort(-score, axis=1, kind="stable")[:, :k]
            index = np.concatenate([indices[rows], column + first], axis=1)
            scores[rows], indices[rows] = (np.take_along_axis(found, order, axis=1) for found in (score, index))
    return scores, indices


def _highest(table, k):
    """Returns columns `[rows, k]` and values of the `k` highest scores of each row. Equal values keep the column order.

    The `k`-th highest maximum of the groups of a row is at most the `k`-th highest value of the row. Only groups whose
    maximum is not lower can contain one of the `k` highest values. All other groups are scanned just once.
    """
    rows, groups = len(table), table.shape[1] // WIDTH
    if k > groups:
        return _highest_of_all(table, k)
    grouped = table.reshape(rows, WIDTH, groups)  # Column `i * groups + j` belongs to group `j`.
    maxima = grouped.max(axis=1)
    lowest = np.partition(maxima, groups - k, axis=1)[:, groups - k]
    row, group = np.nonzero(maxima >= lowest[:, None])
    values = grouped[row, :, group]
    hits = values >= lowest[row, None]
    if np.count_nonzero(hits) > 8 * rows * k:  # Many values are equal.
        return _highest_of_all(table, k)
    hit, place = np.nonzero(hits)
    row, column, value = row[hit], place * groups + group[hit], values[hit, place]
    order = np.lexsort((column, -value, row))
    best = order[np.searchsorted(row[order], np.arange(rows))[:, None] + np.arange(k)]
    return column[best], value[best]


def _highest_of_all(table, k):
    """Returns what `_highest` returns, in the order of the columns, without groups."""
    rows, size = table.shape
    lowest = np.partition(table, size - k, axis=1)[:, size - k, None]
    higher, equal = table > lowest, table == lowest
    needed = k - higher.sum(axis=1, keepdims=True)
    kept = higher | (equal & (np.cumsum(equal, axis=1, dtype="int32") <= needed))
    column = np.nonzero(kept)[1].reshape(rows, k)
    return column, np.take_along_axis(table, column, axis=1)
