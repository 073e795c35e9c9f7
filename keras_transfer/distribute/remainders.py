"""Batches that the devices of JAX cannot share evenly: they get further rows, which the compiled step cuts off."""

import keras
import numpy as np

_SURPLUS = "surplus_rows"  # An input [rows, surplus rows]. The step must know its shape, and needs no value of it.


def fill_up(item, replicas):
    """Returns a batch with as many rows as replicas can share evenly, the first of which are its own.

    Args:
        item: Tuple of a dict of inputs and, possibly, labels and weights, arrays [rows, ...].
        replicas: Integer.
    """
    count = len(next(iter(item[0].values())))
    rows = np.resize(np.arange(count), -(-count // replicas) * replicas)
    surplus = len(rows) - count
    inputs, *others = keras.tree.map_structure(lambda column: column[rows], item) if surplus else item
    return ({**inputs, _SURPLUS: np.zeros((len(rows), surplus), bool)}, *others)


def cut_off(item):
    """Returns a batch in a step without the rows that `fill_up` has added, if it has.

    The step computes what one device would. XLA decides how devices share rows that they cannot share evenly.

    Args:
        item: Tuple of inputs and, possibly, labels and weights.
    """
    if not isinstance(item, tuple) or not isinstance(item[0], dict) or _SURPLUS not in item[0]:
        return item
    inputs = dict(item[0])
    rows, surplus = inputs.pop(_SURPLUS).shape
    return keras.tree.map_structure(lambda column: column[: rows - surplus], (inputs, *item[1:]))


def whole_on_each_device(outputs):
    """Returns the outputs of a step such that each process can read all of their rows.

    Args:
        outputs: Structure of tensors.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        return outputs

    def whole(output):
        layout = keras.distribution.TensorLayout([None] * len(output.shape), distribution.device_mesh)
        return keras.distribution.distribute_tensor(output, layout)

    return keras.tree.map_structure(whole, outputs)
