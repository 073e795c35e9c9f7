"""Pairs of parts of a corpus: how its lines become pairs of segments, which are drawn anew in each epoch."""

import numpy as np

from keras_transfer.data.batching import Contents
from keras_transfer.data.blocks import Plan, View
from keras_transfer.data.layout import Layout
from keras_transfer.data.shards import Shuffle

OBJECTIVES = ("next_sentence", "sentence_order")
_LENGTH, _IS_SHORT, _SPLIT, _IS_OTHER = range(4)  # What is drawn for each document and each line.
_STEP, _SCALE = np.uint64(0x9E3779B97F4A7C15), 2.0**-53
_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class PairRows:
    """The pairs of segments of a corpus. A row has the number of the line with which it begins.

    A document is cut into chunks of lines, each of which becomes a pair of segments. This is the sampling of BERT's and
    of ALBERT's code, with new draws for each seed and epoch.

    Args:
        separator: Integer. Number of ids at the end of a document that are not part of its text.
        objective: String, one of `OBJECTIVES`.
        short: Float. Fraction of the documents that become shorter pairs.
    """

    def __init__(self, shards, form, separator, length, objective, short):
        self.shards, self.form, self.features = shards, form, form.features
        self._separator, self._objective, self._short = separator, objective, short
        self._width = length - form.num_special_tokens_of_pairs
        self._ends = [np.searchsorted(shard.lines, shard.documents) + 1 for shard in shards]  # They count lines.
        self._first_line = np.cumsum([0, *(len(shard.lines) for shard in shards)])
        self._first_document = np.cumsum([0, *map(len, self._ends)])
        self._known = {}

    def starts(self, seed, epoch):
        """Returns the numbers of the rows of an epoch, an integer array in ascending order."""
        if (seed, epoch) not in self._known:
            found = [self._starts(number, seed, epoch) for number in range(len(self.shards))]
            kept = dict(list(self._known.items())[-1:])  # The epoch before may still be read.
            self._known = {**kept, (seed, epoch): np.concatenate(found)}
        return self._known[seed, epoch]

    def _starts(self, number, seed, epoch):
        ends, found = self._ends[number], []
        at, documents = np.concatenate([[0], ends[:-1]]), np.arange(len(ends))
        while len(documents):
            middle, end, is_other = self._chunks(number, at, documents, seed, epoch)
            if self._objective == "next_sentence":
                found.append(at)
                at = np.where(is_other, middle, end)  # The second half was not used, and begins the next chunk.
            else:
                found.append(at[end - at > 1])
                at = end
            left = at < ends[documents]
            at, documents = at[left], documents[left]
        return self._first_line[number] + np.sort(np.concatenate(found)).astype("int64")

    def _targets(self, number, documents, seed, epoch):
        """Returns how many ids the chunks of documents should have."""
        documents = documents + self._first_document[number]
        is_short = uniform(seed, epoch, _IS_SHORT, documents) < self._short
        short = 2 + (uniform(seed, epoch, _LENGTH, documents) * (self._width - 1)).astype("int64")
        return np.where(is_short, short, self._width)

    def _chunks(self, number, at, documents, seed, epoch):
        """Returns the line after the first segment, the line after the second one, and whether the latter is replaced.

        Args:
            at: Integer array [rows]. The lines of the shard with which rows begin.
            documents: Integer array [rows]. Their documents in the shard.
        """
        lines, last = self.shards[number].lines, self._ends[number][documents]
        wanted = _begin(lines, at) + self._targets(number, documents, seed, epoch)
        end = np.searchsorted(lines, wanted) + 1
        if self._objective == "sentence_order":  # A single line has no order.
            end = np.maximum(end, at + 2)
        end = np.minimum(end, last)
        keys = at + self._first_line[number]
        rest = np.maximum(end - at - 1, 1)
        middle = at + 1 + (uniform(seed, epoch, _SPLIT, keys) * rest).astype("int64")
        is_other = uniform(seed, epoch, _IS_OTHER, keys) < 0.5
        if self._objective == "next_sentence":
            is_other |= end - at == 1
        return np.minimum(middle, end), end, is_other

    def _by_shard(self, rows, seed, epoch):
        """Yields `(places, shard, lines, documents, middle, end, is_other)` for the rows of each shard."""
        rows = np.asarray(rows)
        numbers = np.searchsorted(self._first_line, rows, side="right") - 1
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number)
            at = rows[places] - self._first_line[number]
            documents = np.searchsorted(self._ends[number], at, side="right")
            yield places, number, at, documents, *self._chunks(number, at, documents, seed, epoch)

    def labels(self, rows, seed, epoch):
        """Returns the label of each row, int32: 0 for two segments in their order, 1 for others."""
        found = np.zeros(len(rows), "int32")
        for places, *_, is_other in self._by_shard(rows, seed, epoch):
            found[places] = is_other
        return found

    def read(self, rows, length, seed, epoch):
        """Returns a dict of int32 arrays [rows, length], the inputs of an encoder."""
        firsts, seconds = [None] * len(rows), [None] * len(rows)
        for places, number, *columns in self._by_shard(rows, seed, epoch):
            targets = self._targets(number, columns[1], seed, epoch)
            for place, target, at, document, middle, end, is_other in zip(
                places.tolist(), targets.tolist(), *(column.tolist() for column in columns)
            ):
                random = np.random.default_rng([seed, epoch, int(rows[place])])
                first = self._ids(number, document, at, middle)
                if is_other and self._objective == "next_sentence":
                    second = self._of_another(self._first_document[number] + document, target - len(first), random)
                else:
                    second = self._ids(number, document, middle, end)
                if is_other and self._objective == "sentence_order":
                    first, second = second, first
                firsts[place], seconds[place] = truncated(first, second, self._width, random)
        return self.form.pack_pairs(firsts, seconds, length)

    def _ids(self, number, document, first, end):
        """Returns the ids of lines of a document, without those that end it."""
        shard = self.shards[number]
        start, stop = (int(each) for each in _begin(shard.lines, np.array([first, end])))
        return shard.ids[start : stop - self._separator * (end == self._ends[number][document])]

    def _of_another(self, document, target, random):
        """Returns a segment that begins with any line of any other document."""
        # Draw one of the other documents of all shards, and find it in its shard.
        other = int(random.integers(self._first_document[-1] - 1))
        if other >= document:
            other += 1
        number = int(np.searchsorted(self._first_document, other, side="right")) - 1
        place = other - self._first_document[number]
        ends, lines = self._ends[number], self.shards[number].lines

        # Draw one of its lines, and add lines until there are enough ids.
        begin = 0 if place == 0 else int(ends[place - 1])
        end = int(ends[place])
        first = int(random.integers(begin, end))
        wanted = int(_begin(lines, np.array([first]))[0]) + max(target, 1)
        last = int(np.searchsorted(lines, wanted)) + 1
        return self._ids(number, place, first, min(last, end))


def _begin(lines, at):
    """Returns where lines begin, given where all lines end."""
    return np.where(at > 0, lines[np.maximum(at - 1, 0)], 0).astype("int64")


def truncated(first, second, width, random):
    """Returns two segments with at most `width` ids, after removing single ids from random ends of the longer one."""
    size = min(len(first), max(-(-width // 2), width - len(second)))
    found = []
    for part, kept in ((first, size), (second, width - size)):
        cut = max(len(part) - kept, 0)
        before = int(random.binomial(cut, 0.5)) if cut else 0
        found.append(part[before : len(part) - cut + before])
    return found


def uniform(seed, epoch, what, numbers):
    """Returns a random number from 0 to 1 for each of some numbers, which is always the same (SplitMix64).

    `what` says what is drawn: other values are independent.
    """
    key = np.random.SeedSequence([seed, epoch, what]).generate_state(1, "uint64")
    mixed = key + (np.asarray(numbers).astype("uint64") + np.uint64(1)) * _STEP
    for shift, factor in _MIXERS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * _SCALE


class Pairs(View):
    """Pairs of segments of a corpus as batches of token ids and labels; `Corpus.pairs` makes them.

    The seed and the epoch determine the pairs and their order. As many rows as the first epoch has, every epoch has: a
    few pairs are left out, or occur twice, if there would be more or fewer.
    """

    def __init__(self, rows, options, seed=None, source=None):
        self.rows, self.check_preprocessor = rows, rows.form.check_preprocessor
        drawn = np.random.randint(2**31) if seed is None else int(seed)
        contents = Contents(Layout("pairs"), makes_labels=True)
        super().__init__(rows.features, len(rows.starts(drawn, 0)), options, drawn, contents, source)
        self._seeded = seed is not None  # Without `shuffle`, too.

    def _moment(self):
        """Returns the seed and the epoch that determine the pairs."""
        return self._random_state()

    def _plan(self, seed, epoch):
        starts = self.rows.starts(seed, epoch)
        shuffle = Shuffle(len(starts), [seed, epoch]) if self.options.shuffle else np.asarray
        return Plan(self.options, self.count, lambda positions: starts[shuffle(positions % len(starts))])

    def read(self, rows, length):
        return self.rows.read(rows, length, *self._moment())

    def read_labels(self, rows, length=None):
        return self.rows.labels(rows, *self._moment()) if self.contents.makes_labels else None

    def numbers(self, positions):
        starts = self.rows.starts(*self._moment())
        return starts[positions % len(starts)]
