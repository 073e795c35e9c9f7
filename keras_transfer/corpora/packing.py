"""Where the rows of a shard begin: how lines and documents are packed into rows of a fixed length."""

import numpy as np

PACKINGS = ("full_sentences", "full_documents", "document", "stream")


def row_starts(shard, packing, width):
    """Returns where the rows of a shard begin, int64. Each row ends where the next one begins, so no id is lost.

    Args:
        shard: `Shard`.
        packing: String, one of `PACKINGS`; see `Corpus.blocks`.
        width: Integer. Largest number of ids of a row.
    """
    count = len(shard.ids)
    if packing == "stream":
        return np.arange(0, count, width, dtype="int64")
    bounds = _bounds(np.asarray(shard.documents if packing == "full_documents" else shard.lines), width)
    following = np.searchsorted(bounds, bounds + width, side="right") - 1
    if packing == "document":
        ends = np.searchsorted(bounds, shard.documents)
        following = np.minimum(
            following, np.append(ends, len(bounds))[np.searchsorted(ends, np.arange(len(bounds)), side="right")]
        )
    following, starts, at = following.tolist(), [], 0
    while at < len(following) - 1:
        starts.append(at)
        at = following[at]
    return bounds[starts]


def _bounds(ends, width):
    """Returns 0 and the ends of units, of which those that are longer than a row are cut into pieces."""
    bounds = np.concatenate([[0], ends]).astype("int64")
    pieces = -(-np.diff(bounds) // width)
    if (pieces <= 1).all():
        return bounds
    first = np.repeat(bounds[:-1], pieces)
    nth = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 1
    return np.concatenate([[0], np.minimum(first + nth * width, np.repeat(ends, pieces))])
