"""What several objectives draw at random, and the checks of their rates and rows."""

import numbers

import numpy as np

from keras_transfer.objectives.noise import MASK, RANDOM, SAME


def draw_ids(random, count, vocabulary_size, special_ids):
    """Returns random ids that are not special, an integer array [count]."""
    special_ids = np.unique(np.asarray(special_ids, int))
    drawn = random.integers(0, max(vocabulary_size - len(special_ids), 1), count)
    for special in special_ids:
        drawn += drawn >= special
    return drawn


def draw_kinds(random, count, mask_token_rate, random_token_rate):
    """Returns what becomes of hidden tokens, an integer array [count] of `MASK`, `SAME` and `RANDOM`."""
    value = random.random(count)
    return np.where(value < mask_token_rate, MASK, np.where(value < mask_token_rate + random_token_rate, RANDOM, SAME))


def check_rates(**rates):
    """Raises a `ValueError` unless all rates are numbers between 0 and 1."""
    for name, value in rates.items():
        if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
            raise ValueError(f"`{name}` must be between 0 and 1. Received: {name}={value!r}")


def check_inner_rate(**rates):
    """Raises a `ValueError` unless all rates are numbers between 0 and 1, and neither of them."""
    check_rates(**rates)
    for name, value in rates.items():
        if value in (0, 1):
            raise ValueError(f"`{name}` must be above 0 and below 1. Received: {name}={value!r}")


def check_kinds(mask_token_rate, random_token_rate):
    """Raises a `ValueError` unless the rates of what becomes of hidden tokens are possible."""
    check_rates(mask_token_rate=mask_token_rate, random_token_rate=random_token_rate)
    if mask_token_rate + random_token_rate > 1:
        raise ValueError(
            "`mask_token_rate` and `random_token_rate` must not exceed 1 together. Received: "
            f"mask_token_rate={mask_token_rate}, random_token_rate={random_token_rate}"
        )


def as_rows(rows):
    """Returns rows as a list of int32 arrays [tokens].

    Raises:
        ValueError: If a row is not a list of integers.
    """
    found = [np.asarray(row) for row in rows]
    for index, row in enumerate(found):
        if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
            raise ValueError(f"Rows must be lists of integers. Received: {rows[index]!r:.100} at position {index}")
    return [row.astype("int32") for row in found]
