"""Batches that devices cannot share evenly: they get further rows, which the compiled step cuts off."""

import keras
import numpy as np

from keras_transfer.core.lazy import tf

_SURPLUS = "surplus_rows"  # An input [rows, surplus rows]. The step must know its shape, and needs no value of it.
_OWN = "own_rows"  # An input [rows, 1] on TensorFlow, 1 for the rows of the batch and 0 for those that were added.


def fill_up(item, replicas):
    """Returns a batch with as many rows as replicas can share evenly, the first of which are its own.

    Args:
        item: Tuple of a dict of inputs and, possibly, labels and weights, arrays [rows, ...].
    """
    count = len(next(iter(item[0].values())))
    rows = np.resize(np.arange(count), -(-count // replicas) * replicas)
    surplus = len(rows) - count
    inputs, *others = keras.tree.map_structure(lambda column: column[rows], item) if surplus else item
    return ({**inputs, _SURPLUS: np.zeros((len(rows), surplus), bool)}, *others)


def cut_off(item):
    """Returns a batch in a step without the rows that `fill_up` has added, if it has.

    The step computes what one device would. XLA decides how devices share rows that they cannot share evenly.
    """
    if not isinstance(item, tuple) or not isinstance(item[0], dict) or _SURPLUS not in item[0]:
        return item
    inputs = dict(item[0])
    rows, surplus = inputs.pop(_SURPLUS).shape
    return keras.tree.map_structure(lambda column: column[: rows - surplus], (inputs, *item[1:]))


def repeat_rows(item, count):
    """Returns a batch with `count` rows for replicas of TensorFlow, the first of which are its own.

    Args:
        item: Tuple of a dict of inputs and, possibly, labels and weights, arrays [rows, ...].
    """
    own = len(next(iter(item[0].values())))
    rows = np.resize(np.arange(own), count)

    def repeated(column):
        if isinstance(column, np.ndarray):
            return column[rows]
        return tf.gather(column, rows)

    inputs, *others = keras.tree.map_structure(repeated, item) if count > own else item
    return ({**inputs, _OWN: (np.arange(count) < own)[:, None].astype("int32")}, *others)


def own_rows(item):
    """Returns the batch of a replica of TensorFlow, and how many of its rows `repeat_rows` has not added, or `None`.

    The batch has only these rows, or a single one that was added if there are none: losses are means over rows.
    """
    if not isinstance(item, tuple) or not isinstance(item[0], dict) or _OWN not in item[0]:
        return item, None
    inputs = dict(item[0])
    own = keras.ops.sum(inputs.pop(_OWN))
    return first_rows((inputs, *item[1:]), keras.ops.maximum(own, 1)), own


def first_rows(columns, count):
    """Returns a structure of tensors with their first rows."""
    return keras.tree.map_structure(lambda column: None if column is None else column[:count], columns)


def whole_on_each_device(outputs):
    """Returns the outputs of a step such that each process can read all of their rows."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return outputs

    def whole(output):
        layout = keras.distribution.TensorLayout([None] * len(output.shape), distribution.device_mesh)
        return keras.distribution.distribute_tensor(output, layout)

    return keras.tree.map_structure(whole, outputs)
