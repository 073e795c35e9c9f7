"""The log-likelihoods of tokens, for which only different contexts are multiplied with the vocabulary."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_transfer.data import compiles_each_length
from keras_transfer.keras_internals import predict_batch

_TOGETHER = 512  # Number of contexts that are multiplied with the vocabulary at once, which reads its whole table.


def target_log_likelihoods(task, batches):
    """Yields the log-likelihoods of target tokens, an array for each context.

    A batch is a tuple of inputs of the task, the indices of contexts among its places (rows and columns), and a list of
    the ids of the targets of each.
    """
    head = task.get_layer("logits")

    def make():
        vectors = keras.Input(head.input.shape[2:], dtype=head.input.dtype, name="vectors")
        ids = keras.Input((None,), dtype="int32", name="target_ids")
        outputs = _LogLikelihood(head, task.encoder, dtype="float32", name="log_likelihood")(vectors, ids)
        return keras.Model({"vectors": vectors, "target_ids": ids}, outputs)

    encode = task.derived("contexts", lambda: keras.Model(task.input, head.input))
    score = task.derived("log-likelihoods", make)
    contexts = (each for inputs, at, ids in batches for each in zip(predict_batch(encode, inputs)[at], ids))
    while block := list(itertools.islice(contexts, _TOGETHER)):
        counts, first = [len(ids) for _, ids in block], block[0][0]
        size = _rounded(len(block), 16)
        vectors = np.zeros((size, len(first)), first.dtype)
        targets = np.zeros((size, _rounded(max(counts), 1)), "int32")
        for row, (vector, ids) in enumerate(block):
            vectors[row], targets[row, : len(ids)] = vector, ids
        values = predict_batch(score, {"vectors": vectors, "target_ids": targets})
        yield from (row[:count] for row, count in zip(values, counts))


def _rounded(count, least):
    """Returns the next power of two, at least `least`, if each length is compiled, and the count itself otherwise."""
    return 1 << (max(count, least) - 1).bit_length() if compiles_each_length() else count


class _LogLikelihood(keras.layers.Layer):
    """The log-likelihoods of targets `[contexts, targets]`, given vectors `[contexts, dim]` and the head for logits."""

    def __init__(self, head, encoder, **kwargs):
        super().__init__(**kwargs)
        self.head = head
        self.encoder = encoder  # On JAX, a step sees the table of a tied head only if its model tracks it.

    def call(self, vectors, ids):
        logits = ops.cast(self.head(vectors[None])[0], "float32")
        return ops.take_along_axis(logits, ids, axis=1) - ops.logsumexp(logits, axis=-1, keepdims=True)
