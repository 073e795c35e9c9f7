"""A random order of any number of rows that needs neither memory nor time before the first row."""

import numpy as np

_ROUNDS = 6
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


class Shuffle:
    """A random permutation of the integers below a number, computed for each position by itself.

    It is a Feistel network, which is a bijection on all numbers of an even number of bits. A result that is too large
    goes through the network again, so that the numbers below `count` are permuted among themselves.

    Args:
        count: Integer. How many numbers are permuted.
        seed: Sequence of integers of at least 0, such as a seed and an epoch.

    Call arguments:
        - `positions`: Array of integers from 0 to `count - 1`.

    Returns:
        Array of int64 of the same shape: what is at these positions.
    """

    def __init__(self, count, seed):
        self.count = count
        self._half = np.uint64(max(1, -(-max(count - 1, 1).bit_length() // 2)))
        self._mask = (np.uint64(1) << self._half) - np.uint64(1)
        self._keys = np.random.default_rng(seed).integers(2**64, size=_ROUNDS, dtype="uint64")

    def __call__(self, positions):
        numbers = self._permute(np.array(positions, "uint64"))
        while (outside := numbers >= self.count).any():
            numbers[outside] = self._permute(numbers[outside])
        return numbers.astype("int64")

    def _permute(self, numbers):
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            mixed = (right ^ key) * _MULTIPLIER
            mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
            left, right = right, left ^ ((mixed >> _SHIFT) & self._mask)
        return (left << self._half) | right
