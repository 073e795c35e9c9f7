"""Blocks of a corpus as batches, which are read from the disk when they are needed."""

import numpy as np

from keras_transfer.data.batching import Batches, Contents
from keras_transfer.data.layout import Layout
from keras_transfer.data.shards import Shuffle


class View(Batches):
    """Rows of a corpus as batches, which are read when they are needed.

    Args:
        names: List of strings. The columns that `read` returns.
        count: Integer. Number of rows.
        source: Dict of JSON values that identify the corpus and how rows are made of it.
    """

    def __init__(self, names, count, options, seed, contents, source=None):
        self.source, self.count = source or {}, count
        columns = {name: Column(self, name, (count, options.lengths[-1])) for name in names}
        super().__init__(columns, options=options, seed=seed, contents=contents)

    def identity(self):
        return {**super().identity(), **self.source}

    def numbers(self, positions):
        """Returns the numbers of rows, given their positions in the view."""
        return positions

    def _real_lengths(self):
        return np.broadcast_to(np.int64(self.options.lengths[-1]), self.count)


class Blocks(View):
    """The rows of a corpus as batches of token ids for `fit` and `evaluate`; `Corpus.blocks` makes them.

    Rows begin at `starts` of each shard, and have special tokens.

    They need memory for a batch, and eight bytes for each row. An epoch begins at once, because its order is computed
    batch by batch. The seed and the epoch determine it. To begin an epoch with a later batch, call `seek`.
    """

    def __init__(self, shards, starts, form, options, seed=None, source=None):
        self.shards, self.starts, self.form, self.check_preprocessor = shards, starts, form, form.check_preprocessor
        self._first = np.cumsum([0, *map(len, starts)])
        super().__init__(form.features, int(self._first[-1]), options, seed, Contents(Layout("texts")), source)

    def _plan(self, seed, epoch):
        order = Shuffle(self.count, [seed, epoch]) if self.options.shuffle else np.asarray
        return Plan(self.options, self.count, order)

    def ids(self, row):
        """Returns the ids of a row without its special tokens."""
        number = int(np.searchsorted(self._first, row, side="right")) - 1
        shard, starts, at = self.shards[number], self.starts[number], int(row - self._first[number])
        return shard.ids[starts[at] : starts[at + 1] if at + 1 < len(starts) else len(shard.ids)]

    def read(self, rows, length):
        return self.form.pack([self.ids(row) for row in rows], length)


class Column:
    """A column of blocks or pairs, which has the shape of an array and is read from the disk when it is indexed."""

    dtype = np.dtype("int32")
    ndim = 2

    def __init__(self, blocks, name, shape):
        self._blocks, self._name, self.shape = blocks, name, shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        single = isinstance(rows, (int, np.integer))
        positions = np.atleast_1d(np.arange(len(self))[rows])
        found = self._blocks.read(self._blocks.numbers(positions), self.shape[1])[self._name]
        return found[0] if single else found

    def __array__(self, dtype=None, copy=None):
        return self[:].astype(self.dtype if dtype is None else dtype)

    def sum(self, axis=None):
        return np.asarray(self).sum(axis=axis)


class Plan:
    """The batches of an epoch as a sequence of `(length, rows)`, each of which is computed when it is asked for."""

    def __init__(self, options, count, order):
        self._options, self._count, self._order = options, count, order

    def __len__(self):
        size = self._options.batch_size
        return self._count // size if self._options.drop_remainder else -(-self._count // size)

    def __getitem__(self, index):
        if not 0 <= index < len(self):  # Python ends an iteration so.
            raise IndexError(f"There are {len(self)} batches. Received: {index}")
        start = index * self._options.batch_size
        rows = np.arange(start, min(start + self._options.batch_size, self._count))
        if self._options.repeat == "even":  # A short batch repeats its own rows, so that replicas can share it.
            rows = np.resize(rows, self._options.rows_of(len(rows)))
        return self._options.lengths[-1], self._order(rows)
