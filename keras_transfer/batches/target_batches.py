"""Batches of raw text with targets that an objective makes, different ones in each epoch."""

import copy

import numpy as np

from keras_transfer.batches.batching import TextBatches
from keras_transfer.batches.lengths import MAX_LENGTHS


class TargetBatches(TextBatches):
    """`TextBatches` without labels, whose items are the inputs and targets of an objective.

    The seed, the epoch and the number of a batch determine what the objective draws, so that a run can be resumed.

    Args:
        data: `TextBatches` without labels.
        make: Function that returns inputs and targets, given the inputs of a batch, a `np.random.Generator`, and the
            number of additional places that the objective must add. The first two batches get different numbers if
            their lengths differ, because Keras must see that the number of places varies.
        seed: Integer. Defaults to `None`, which uses the seed of `data` or a new one.
    """

    has_labels = True

    def __init__(self, data, make, seed=None):
        seed = data.seed if seed is None else seed
        seed = np.random.randint(2**31) if seed is None else seed
        rest = (data.batch_size, data.lengths, data.shuffle, seed, data.drop_remainder)
        super().__init__(data.inputs, None, None, *rest)
        self._make = make
        self._fixed = False

    def fixed(self):
        """Returns the same batches with the targets of the first epoch in every epoch, for evaluation."""
        other = copy.copy(self)
        other._fixed = True
        return other

    def __getitem__(self, index):
        (inputs,) = super().__getitem__(index)
        random = np.random.default_rng([self.seed, 0 if self._fixed else self.epoch, self._state.first + index])
        length = next(values.shape[1] for values in inputs.values() if values.ndim > 1)
        # If a step is compiled for each length, the number depends on the length alone.
        few = len(self.lengths) <= MAX_LENGTHS
        steps = self.lengths if few else sorted(length for length, _ in self._whole_epoch[:2])
        return self._make(inputs, random, int(np.searchsorted(steps, length)))
