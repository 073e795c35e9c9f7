"""Pairs of segments of a corpus as batches, with labels that say whether they belong together."""

import numpy as np

from keras_transfer.batches import Batches, Contents
from keras_transfer.corpora.blocks import Column, Plan
from keras_transfer.corpora.shuffling import Shuffle


class Pairs(Batches):
    """Pairs of segments of a corpus as batches of token ids and labels; `Corpus.pairs` makes them.

    The seed and the epoch determine the pairs and their order. As many rows as the first epoch has, every epoch has: a
    few pairs are left out, or occur twice, if there would be more or fewer.

    Args:
        rows: `PairRows`.
        options: `Options`, of which `lengths` has one length.
        seed: Integer. Defaults to `None`, which follows `keras.utils.set_random_seed`.
        source: Dict of JSON values that identify the corpus and how pairs are made of it. Defaults to `None`.

    Attributes: See `Batches`.
    """

    def __init__(self, rows, options, seed=None, source=None):
        self.rows, self.source = rows, source or {}
        self._drawn = np.random.randint(2**31) if seed is None else int(seed)
        length = options.lengths[-1]
        columns = {name: Column(self, name, (self._count(), length)) for name in rows.features}
        super().__init__(columns, options=options, seed=self._drawn, contents=Contents("pairs", makes_labels=True))
        self._seeded = seed is not None  # Without `shuffle`, too.

    def _count(self):
        return len(self.rows.starts(self._drawn, 0))

    def identity(self):
        return {**super().identity(), **self.source}

    def check_preprocessor(self, preprocessor):
        self.rows.form.check_preprocessor(preprocessor)

    def _moment(self):
        """Returns the seed and the epoch that determine the pairs."""
        return self._random_state()

    def _plan(self, seed, epoch):
        starts = self.rows.starts(seed, epoch)
        shuffle = Shuffle(len(starts), [seed, epoch]) if self.options.shuffle else np.asarray
        return Plan(self.options, len(self.real), lambda positions: starts[shuffle(positions % len(starts))])

    def read(self, rows, length):
        return self.rows.read(rows, length, *self._moment())

    def read_labels(self, rows):
        return self.rows.labels(rows, *self._moment()) if self.contents.makes_labels else None

    def numbers(self, positions):
        """Returns the numbers of rows, given their positions in the corpus."""
        starts = self.rows.starts(*self._moment())
        return starts[positions % len(starts)]

    def _real_lengths(self):
        return np.broadcast_to(np.int64(self.options.lengths[-1]), self._count())
