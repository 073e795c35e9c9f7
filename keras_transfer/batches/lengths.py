"""Chooses the sequence lengths of batches for little padding and few compilations, and shows Keras that they vary."""

import keras
import numpy as np

MAX_LENGTHS = 6  # if a step is compiled for each length
LENGTH_STEP = 8  # Lengths to compile are multiples of it, so that two datasets often share them.
WINDOW = 50  # Batches. Otherwise, shuffled texts are sorted by length within windows of at most this size.


def lengths_for(real, longest):
    """Returns the lengths of batches: every length of a text, or a few if Keras compiles a step for each length.

    Keras does so on JAX, and on TensorFlow with a GPU or TPU, where it uses XLA by default.

    Args:
        real: Integer array. Number of real tokens of each text.
        longest: Integer. Length of the inputs.

    Returns:
        Sorted list of integers.
    """
    few = keras.backend.backend() == "jax"
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        few = any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
    return choose_lengths(real, longest) if few else np.unique(np.maximum(real, 1)).tolist()


def choose_lengths(real, longest):
    """Returns at most six multiples of 8 (the last may be `longest`) that pad the texts the least.

    Args:
        real: Integer array. Number of real tokens of each text.
        longest: Integer. Length of the inputs.

    Returns:
        Sorted list of integers, the best choice by dynamic programming over the candidates.
    """
    candidates = np.unique(np.minimum(-(-np.maximum(real, 1) // LENGTH_STEP) * LENGTH_STEP, longest))
    upto = np.concatenate([[0], np.searchsorted(np.sort(real), candidates, side="right")])
    # cost[k, j]: the fewest tokens with k lengths, where candidate j - 1 is the largest.
    size = len(candidates)
    cost = np.full((MAX_LENGTHS + 1, size + 1), np.inf)
    back = np.zeros((MAX_LENGTHS + 1, size + 1), int)
    cost[0, 0] = 0
    for k in range(1, MAX_LENGTHS + 1):
        for j in range(1, size + 1):
            options = cost[k - 1, :j] + (upto[j] - upto[:j]) * candidates[j - 1]
            back[k, j] = np.argmin(options)
            cost[k, j] = options[back[k, j]]
    k, j, chosen = int(np.argmin(cost[:, size])), size, []
    while j:
        chosen.append(int(candidates[j - 1]))
        k, j = k - 1, back[k, j]
    return chosen[::-1]


def sort_within_windows(lengths, batch_size, window):
    """Returns the order that sorts lengths within windows of equal size, at most `window` batches each."""
    count = -(-len(lengths) // batch_size)
    size = -(-count // -(-count // window)) * batch_size
    return np.lexsort((lengths, np.arange(len(lengths)) // size))


def put_varied_first(plan):
    """Moves two batches that differ in length and in rows to the front, if any do. The one with more rows comes first.

    Keras on TensorFlow infers the axes that vary from the first two batches, and builds a model with replicas on the
    first.
    """
    rows = [len(rows) for _, rows in plan]
    short = int(np.argmin(rows))
    others = [i for i in range(len(plan)) if plan[i][0] != plan[short][0]]
    others = others or [i for i in range(len(plan)) if rows[i] > rows[short]]
    if not others:
        return plan
    front = sorted([short, others[0]], key=lambda i: (-rows[i], i))
    return [plan[i] for i in front] + [batch for i, batch in enumerate(plan) if i not in front]


def lengthen_first(plan):
    """Pads batches that must keep their order, so that the first two differ in length, if any do: see above.

    If the first two have the largest length, all batches are padded to this length.
    """
    lengths = [length for length, _ in plan]
    if len(set(lengths[:2])) == 2 or len(set(lengths)) == 1:
        return plan
    end = 2 if lengths[0] < max(lengths) else len(plan)
    return plan[:1] + [(max(lengths), rows) for _, rows in plan[1:end]] + plan[end:]
