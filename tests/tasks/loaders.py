"""A loader of batches of texts, for the tests of tasks."""

import numpy as np

TEXTS = ["a b c", "d e", "f g h i j a b c d", "a b c d e f g h i j"]


class Loader:
    """What torch's and Grain's loaders are: an iterable of batches, perhaps with a length."""

    def __init__(self, batches=None, length=None):
        self.batches = [TEXTS[:2], np.array(TEXTS[2:])] if batches is None else batches
        self.length = len(self.batches) if length is None else length

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return self.length
