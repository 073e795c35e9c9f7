"""A corpus as long texts that are read window by window, for truncated back-propagation through time."""

import numpy as np

from keras_transfer.core.expect import integer
from keras_transfer.data.batching import Contents
from keras_transfer.data.blocks import View
from keras_transfer.data.layout import Layout


class Windows(View):
    """Base class of views whose rows are a few long texts in windows, each of which continues the one before it."""

    instead = ""  # A sentence of an error message: what processes can share.
    reshuffled = False  # Streams with several window lengths draw these in each epoch, but the order of texts is fixed.

    def extremes(self):
        rows = np.arange(self.num_streams)
        return [(self.options.lengths[0], rows), (self.options.lengths[-1], rows)]

    def shard(self, index, count):
        """Raises a `ValueError`: windows continue those before them, so processes cannot share them."""
        raise ValueError(
            f"The windows of streams continue each other, so that processes cannot share them.{self.instead} "
            f"Received: index={index}, count={count}"
        )


class Streams(Windows):
    """The ids of a corpus as a few long texts in windows, each of which continues the one before it.

    `Corpus.streams` makes them. An item contains the inputs `token_ids`, `padding_mask` and `begins`, the next tokens
    as targets, and weights, which are 0 only after the end of a text. `begins` [batch, 1] is 1 in the first window of
    an epoch, where a task that carries a state forgets it.

    The seed and the epoch determine the lengths of the windows, and all epochs read the same texts from their
    beginnings. To begin an epoch with a later window, call `seek`.

    Args:
        options: `Options`. Windows have its `lengths`.
        lengths: Tuple of integers, one of which is drawn for each window, with its repetitions.
        check: Function that raises an error for a preprocessor with another tokenizer.
        source: Dict of JSON values that identify the corpus.
    """

    instead = " Use `Corpus.blocks`."

    def __init__(self, shards, options, lengths, pad_id, check, seed=None, reverse=False, source=None):
        self.shards, self.drawn, self.pad_id, self.check_preprocessor = shards, lengths, pad_id, check
        self.reverse = reverse
        self.num_streams = options.batch_size
        self._first = np.cumsum([0, *(len(shard.ids) for shard in shards)])
        self.width = -(-int(self._first[-1]) // self.num_streams)
        contents = Contents(Layout("texts"), prepare=_targets, makes_labels=True)
        names = ("token_ids", "padding_mask", "begins")
        super().__init__(names, self.width * self.num_streams, options, seed, contents, source)

    def identity(self):
        return {**super().identity(), "drawn": list(self.drawn), "reverse": self.reverse}

    def _plan(self, seed, epoch):
        random, starts, lengths = np.random.default_rng([seed, epoch]), [0], []
        while starts[-1] < self.width:
            lengths.append(self.drawn[random.integers(len(self.drawn))])
            starts.append(starts[-1] + lengths[-1])
        # A row's number is its place in its text times the number of texts, plus the number of its text.
        texts = np.arange(self.num_streams)
        return [(length, start * self.num_streams + texts) for length, start in zip(lengths, starts)]

    def window_lengths(self, epochs):
        """Returns the lengths of the windows of the next epochs, one for each step of `fit`, for a `WindowRate`."""
        found, ahead = [], self.apart()
        for epoch in range(self.epoch, self.epoch + integer(1).check("epochs", epochs)):
            ahead.epoch = epoch
            found += [length for length, _ in ahead.planned()]
        return found[self._position.first :]

    def read(self, rows, length):
        """Returns a dict of the inputs of some rows, and the id after them."""
        start, text = np.divmod(np.asarray(rows)[:, None], self.num_streams)
        place = start + np.arange(length + 1)  # In the text of the row.
        where = text * self.width + place  # In the corpus.
        count = int(self._first[-1])
        ids = np.full(place.shape, self.pad_id, "int32")
        for row, places in enumerate(where):
            begin, end = int(places[0]), min(int(places[-1]) + 1, count)
            found = self._ids(begin, end)
            ids[row, : len(found)] = found

        # Rows end with their text or with the corpus. The id after the end of a text begins the next text.
        place, where = place[:, :-1], where[:, :-1]
        is_real = (place < self.width) & (where < count)
        has_next = is_real & (where + 1 < count)
        return {
            "token_ids": np.where(is_real, ids[:, :-1], self.pad_id),
            "padding_mask": is_real.astype("int32"),
            "begins": (start == 0).astype("int32"),
            "targets": np.where(has_next, ids[:, 1:], 0),
            "weights": has_next.astype("float32"),
        }

    def _ids(self, begin, end):
        """Returns the ids of the corpus from one place to another, in the order in which it is read."""
        if not self.reverse:
            return self._stored(begin, end)
        if begin >= end:
            return self._stored(0, 0)
        count = int(self._first[-1])
        return self._stored(count - end, count - begin)[::-1]

    def _stored(self, begin, end):
        """Returns the stored ids from one place to another."""
        parts, number = [], int(np.searchsorted(self._first, begin, side="right")) - 1
        while number < len(self.shards) and self._first[number] < end:
            first = int(self._first[number])
            parts.append(self.shards[number].ids[max(begin - first, 0) : end - first])
            number += 1
        return np.concatenate(parts) if parts else np.zeros(0, "int32")


def _targets(columns, random):
    inputs, _, _ = columns
    return (
        {name: inputs[name] for name in ("token_ids", "padding_mask", "begins")},
        inputs["targets"],
        inputs["weights"],
    )
