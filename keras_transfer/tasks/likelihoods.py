"""The log-likelihoods of tokens, for which only different contexts are multiplied with the vocabulary."""

import keras
import numpy as np
from keras import ops

from keras_transfer.data import compiles_each_length
from keras_transfer.keras_internals import last_layer, predict_batch

_TOGETHER = 512  # Number of contexts that are multiplied with the vocabulary at once, which reads its whole table.


def target_log_likelihoods(task, batches):
    """Returns the log-likelihoods of target tokens, `[targets]`, in the order in which batches contain them.

    A batch is a tuple of inputs of the task, the indices of the contexts among its places (rows and columns), and, for
    each target, the position of its context among these, ascending, and its id.
    """

    layer, vectors = last_layer(task.output)

    def make():
        parts = {"vectors": keras.Input(vectors.shape[2:], dtype=vectors.dtype, name="vectors")}
        parts |= {name: keras.Input((), dtype="int32", name=name) for name in ("contexts", "target_ids")}
        return keras.Model(parts, _LogLikelihood(layer, dtype="float32", name="log_likelihood")(*parts.values()))

    encode = task.derived("contexts", lambda: keras.Model(task.input, vectors))
    score = task.derived("log-likelihoods", make)
    encoded = ((predict_batch(encode, inputs)[places], which, ids) for inputs, places, which, ids in batches)
    found = [np.zeros(0, "float32")]
    for parts in _in_blocks(encoded):
        inputs = dict(zip(("vectors", "contexts", "target_ids"), map(_padded, parts)))
        found.append(predict_batch(score, inputs)[: len(parts[-1])])
    return np.concatenate(found)


def different_contexts(rows):
    """Returns the number of the context that ends at each token of rows of ids, and where each row differs from others.

    Contexts are equal if all their tokens are. The contexts of a row before the position where it differs are contexts
    of another row, too.
    """
    keys = [row.astype(">i4").tobytes() for row in rows]
    numbers, starts = [np.zeros(0, int)] * len(rows), [0] * len(rows)
    before, known, count = np.zeros(0, int), np.zeros(0, int), 0
    # Rows that begin equally are neighbors, and the longest is the first of those that begin with one another.
    for index in sorted(range(len(rows)), key=keys.__getitem__, reverse=True):
        row = rows[index]
        starts[index] = common = common_length(before, row)
        new = np.arange(count, count + len(row) - common)
        numbers[index] = known = np.concatenate([known[:common], new])
        before, count = row, count + len(new)
    return numbers, starts


def common_length(first, second):
    """Returns the number of ids with which two arrays both begin."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def _in_blocks(parts):
    """Yields vectors, which of them the targets belong to, and the targets' ids, for many vectors at once."""
    kept = []
    for part in parts:
        kept.append(part)
        if sum(len(vectors) for vectors, *_ in kept) >= _TOGETHER:
            *blocks, rest = _blocks_of(kept)
            yield from blocks
            kept = [rest]
    if kept:
        yield from _blocks_of(kept)


def _blocks_of(parts):
    """Yields what parts contain in blocks of vectors."""
    offsets = np.cumsum([0, *(len(vectors) for vectors, *_ in parts)])
    vectors, ids = (np.concatenate([part[k] for part in parts]) for k in (0, 2))
    which = np.concatenate([which + offset for (_, which, _), offset in zip(parts, offsets)])
    for start in range(0, len(vectors), _TOGETHER):
        first, last = np.searchsorted(which, [start, start + _TOGETHER])
        yield vectors[start : start + _TOGETHER], which[first:last] - start, ids[first:last]


def _padded(values):
    """Returns an array with a power of two as its length if each length is compiled."""
    length = 1 << max(len(values) - 1, 15).bit_length() if compiles_each_length() else len(values)
    return np.pad(values, [(0, length - len(values)), *[(0, 0)] * (values.ndim - 1)])


class _LogLikelihood(keras.layers.Layer):
    """The log-likelihoods of targets, given vectors `[contexts, dim]` and the layer that returns their logits."""

    def __init__(self, head, **kwargs):
        super().__init__(**kwargs)
        self.head = head

    def call(self, vectors, contexts, ids):
        logits = ops.cast(self.head(vectors[None])[0], "float32")
        chosen = ops.take(ops.reshape(logits, (-1,)), contexts * logits.shape[-1] + ids)
        return chosen - ops.take(ops.logsumexp(logits, axis=-1), contexts)

    def compute_output_spec(self, vectors, contexts, ids):
        return keras.KerasTensor(ids.shape, "float32")
