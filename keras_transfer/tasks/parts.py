"""Rows of several texts (the parts), each of which the encoder reads separately."""

import keras
from keras import ops

from keras_transfer.tasks.reader import encode_texts


def merge_parts(inputs, wanted):
    """Returns inputs `[batch, parts, ...]` as `[batch * parts, ...]`, as the encoder expects, and the number of parts.

    The parts of a row stay together, so that devices that share a batch have whole rows. The number is a tensor if it
    is not static. Inputs with one text per row, as the symbolic inputs `wanted` tell, are returned unchanged with
    `None`.
    """
    first, symbol = keras.tree.flatten(inputs)[0], keras.tree.flatten(wanted)[0]
    if len(first.shape) != len(symbol.shape) + 1:
        return inputs, None
    merged = keras.tree.map_structure(lambda values: ops.reshape(values, (-1, *ops.shape(values)[2:])), inputs)
    return merged, ops.shape(first)[1]


def split_parts(outputs, parts):
    """Returns outputs [batch * parts, ...] as [batch, parts, ...]."""
    return ops.reshape(outputs, (-1, parts, *outputs.shape[1:]))


def encode_parts(task, *texts):
    """Returns inputs `[batch, parts, length]` of texts `[batch]`, one for each part, all padded to the same length."""
    inputs = encode_texts(task, ops.concatenate(texts))

    def to_rows(values):
        return ops.swapaxes(ops.reshape(values, (len(texts), -1, *ops.shape(values)[1:])), 0, 1)

    return {name: to_rows(values) for name, values in inputs.items()}
