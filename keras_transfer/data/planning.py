"""The plan of an epoch: which rows are in which batch, in which order, and how long each batch is."""

import collections
import dataclasses

import keras
import numpy as np

from keras_transfer.core.lazy import tf
from keras_transfer.distribute import ALL, Share

MAX_LENGTHS = 6  # A step may be compiled for each length.
LENGTH_STEP = 8  # Lengths to compile are multiples of it, so that two datasets often share them.
MAX_CANDIDATES = 24  # Lengths of texts and of labels that pairs are chosen from.
_TABLE = 2**20  # Pairs of lengths that are compared at once.
BATCH_COST = 64  # Tokens that take as long as what each batch needs besides its tokens.
WINDOW = 50  # Batches. Shuffled rows are sorted by length within windows of at most this size.


@dataclasses.dataclass(frozen=True)
class Options:
    """How rows become batches.

    Args:
        lengths: Tuple of integers in ascending order. Lengths that batches may have.
        grouped: Boolean. Whether a batch has rows of similar length. Shuffled rows always are.
        tokens: Integer. A batch has more rows than `batch_size` if they have at most so many tokens, padding included,
            and if this saves time. It is for grouped batches that are not shuffled, of which the longest are the first.
            Defaults to `0`.
        min_rows: Integer. A last batch of fewer rows is added to the batch before it.
        repeat: `"even"`, so that all batches are divisible by `replicas`, because short ones repeat their own rows,
            `"few"`, so that each replica has at least one row, or `None` for neither.
        filled: Boolean. Whether items have further rows, so that they are divisible by `replicas`, which a step cuts
            off.
        label_lengths: Tuple of integers in ascending order. For labels that are sequences, their length in batches of
            each of `lengths`. `()` for the longest labels of a batch.
        inferred: Boolean. Whether Keras infers from the first two batches which axes vary, as it does on TensorFlow
            unless it gets a pipeline.
        one_epoch: Boolean. Whether every epoch draws the same random numbers as the first, also in other processes, as
            for evaluation.
        shard: Tuple `(index, count)`. Only every `count`-th batch of an epoch, from the one at `index` on.
        share: `Share`. The rows of a batch that its item has.
    """

    batch_size: int = 32
    lengths: tuple = (1,)
    shuffle: bool = False
    grouped: bool = False
    tokens: int = 0
    drop_remainder: bool = False
    min_rows: int = 1
    replicas: int = 1
    repeat: str | None = None
    filled: bool = False
    label_lengths: tuple = ()
    inferred: bool = True
    one_epoch: bool = False
    shard: tuple = (0, 1)
    max_batches: int | None = None
    share: Share = ALL

    def rows_of(self, count):
        """Returns the number of rows of a batch with those that it repeats, given its own number."""
        if self.repeat == "few":  # TensorFlow gives each replica as many rows as the first, until none are left.
            count = max(count, self.replicas)
            while -(-count // self.replicas) * (self.replicas - 1) >= count > 1:
                count += 1
            return count
        return -(-count // self.replicas) * self.replicas if self.repeat else count

    def part(self, count):
        """Returns the numbers of the batches of an epoch, as a `range`, given the number of batches of all shards."""
        index, shards = self.shard
        return range(index, count // shards * shards, shards)[: self.max_batches]


class Part:
    """Some batches of a plan, as a sequence of `(length, rows)`, given the `range` of their numbers."""

    def __init__(self, plan, numbers):
        self._plan, self._numbers = plan, numbers

    def __len__(self):
        return len(self._numbers)

    def __getitem__(self, index):
        return self._plan[self._numbers[index]]


def plan(real, options, seed=0, epoch=0):
    """Returns the batches of an epoch as a list of `(length, rows)`, which `seed` and `epoch` alone determine.

    `real` has the number of real tokens of each row, here and below.
    """
    lengths, size = np.asarray(options.lengths), options.batch_size
    needed = lengths[np.searchsorted(lengths, real)]
    if options.tokens:
        return _by_tokens(needed, size, options.tokens)
    random, rows = np.random.default_rng([seed, epoch]), np.arange(len(needed))
    if options.shuffle:
        rows = random.permutation(rows)
    if options.drop_remainder:
        rows = rows[: len(rows) // size * size]
    order = np.arange(-(-len(rows) // size))
    if options.shuffle:
        order = random.permutation(order)
    # With few lengths, one window is enough: rows of the same length remain in random order.
    window = WINDOW if options.shuffle and len(lengths) > MAX_LENGTHS else max(len(order), 1)
    if options.shuffle or options.grouped:
        rows = rows[sort_within_windows(needed[rows], size, window)]
    cuts = range(size, len(rows), size)
    if cuts and len(rows) - cuts[-1] < options.min_rows:
        cuts = cuts[:-1]
    batches = np.split(rows, cuts)
    # A short batch may repeat its own rows, so that replicas can share it. Those of `fit` repeat what is made of them.
    size_of = options.rows_of if options.repeat == "even" else int
    batches = [np.resize(batches[i], size_of(len(batches[i]))) for i in order if i < len(batches)]
    found = [(int(needed[rows].max()), rows) for rows in batches]
    if not options.inferred:
        return found
    if not (options.shuffle or options.grouped):
        return _lengthen_second(found)
    longest = int(needed.max())
    # Only with so many shorter rows has a window certainly a batch without one of the longest. Then batches of each
    # epoch differ in length; otherwise, none may, because Keras infers from one epoch whether they do.
    if (needed < longest).sum() < size * (-(-len(order) // window) + 1):
        found = [(longest, rows) for _, rows in found]
    return _put_varied_first(found, longest)


def _by_tokens(needed, size, tokens):
    """Returns batches of sorted rows, the longest first, of which the padding and the number together cost the least.

    All but the last have at least `size` rows, and more with at most `tokens`, padding included.
    """
    rows = np.argsort(-needed, kind="stable")
    lengths, count = needed[rows], len(rows)
    cost, end = np.zeros(count + 1), np.zeros(count, int)  # Of the rows from each on, and of the first batch of these.
    for first in reversed(range(count)):
        most = max(size, tokens // int(lengths[first]))
        ends = np.minimum(np.arange(first + size, first + most + 1), count)
        costs = lengths[first] * (ends - first) + cost[ends]
        best = costs.argmin()
        cost[first], end[first] = costs[best] + BATCH_COST, ends[best]
    found, first = [], 0
    while first < count:
        found.append((int(lengths[first]), rows[first : end[first]]))
        first = end[first]
    return found


def put_apart(found, texts, real, tries=20):
    """Returns the batches of a plan after exchanging rows, so that batches have no equal texts where this is possible.

    Args:
        texts: Array [rows, parts] of numbers, the same for equal texts.
        tries: Integer. Number of shorter and of longer batches where a row may find another place.
    """
    batches = [list(rows) for _, rows in found]
    by_length = sorted(range(len(found)), key=lambda batch: found[batch][0])
    where = {batch: i for i, batch in enumerate(by_length)}
    of_rows = [frozenset(row) for row in texts.tolist()]

    counts = [collections.Counter(text for row in rows for text in of_rows[row]) for rows in batches]

    def clashes(row, batch, leaving):
        return any(counts[batch][text] > (text in of_rows[leaving]) for text in of_rows[row])

    def exchange(batch, place):
        row = batches[batch][place]
        for other in by_length[max(where[batch] - tries, 0) : where[batch] + tries]:
            if other == batch:
                continue
            for i, candidate in enumerate(batches[other]):
                fits = real[candidate] <= found[batch][0] and real[row] <= found[other][0]
                if fits and not clashes(candidate, batch, row) and not clashes(row, other, candidate):
                    batches[batch][place], batches[other][i] = candidate, row
                    for changed, new, old in ((batch, candidate, row), (other, row, candidate)):
                        counts[changed].update(of_rows[new])
                        counts[changed].subtract(of_rows[old])
                    return True
        return False

    for batch, rows in enumerate(batches):
        seen = set()
        for place, row in enumerate(rows):
            if of_rows[row] & seen and not exchange(batch, place):
                break  # With few distinct texts, trying all rows would take longer than the epoch.
            seen |= of_rows[rows[place]]
    return [(length, np.array(rows)) for (length, _), rows in zip(found, batches)]


def lengths_for(real, longest):
    """Returns the lengths of batches: every length of a text, or a few if Keras compiles a step for each length.

    Keras does so on JAX, and on TensorFlow with a GPU or TPU, where it uses XLA by default.
    """
    return choose_lengths(real, longest) if compiles_each_length() else np.unique(np.maximum(real, 1)).tolist()


def compiles_each_length():
    """Returns whether Keras compiles a step for each length by default."""
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())


def choose_lengths(real, longest):
    """Returns at most six multiples of 8 (the last may be `longest`), ascending, that pad the texts the least."""
    candidates = _candidates(real, longest)
    fitting = np.searchsorted(np.sort(real), candidates, side="right")
    chosen = _cheapest(fitting, candidates, lambda some: candidates[:, None] < candidates[some])
    return candidates[chosen].tolist()


def choose_pairs(real, label_real, longest, longest_label):
    """Returns at most six lengths of texts, and one length of labels for each, with the least padding of both.

    A row is in a batch of the first pair in which it fits. So there are at most six shapes, and not six lengths of
    labels for each length of texts.
    """
    lengths = _few(_candidates(real, longest))
    label_lengths = _few(_candidates(label_real, longest_label))
    counts = np.zeros((len(lengths), len(label_lengths)), int)
    place, label_place = np.searchsorted(lengths, real), np.searchsorted(label_lengths, label_real)
    np.add.at(counts, (place, label_place), 1)
    fitting = counts.cumsum(axis=0).cumsum(axis=1).ravel()

    # A candidate is a pair of a length and a length of labels. The last one has the largest of both.
    index, label_index = (grid.ravel() for grid in np.indices(counts.shape))
    first, second = lengths[index], label_lengths[label_index]

    def allowed(some):
        return (first[:, None] < first[some]) & (second[:, None] <= second[some])

    chosen = _cheapest(fitting, first + second, allowed)
    return first[chosen].tolist(), second[chosen].tolist()


def _cheapest(fitting, width, allowed):
    """Returns the numbers of at most six candidates, of which the last is the last one, with the fewest tokens.

    This is a dynamic program over the number of chosen candidates. A row belongs to the first chosen candidate that it
    fits into. The cheapest choice of n + 1 candidates that ends with one of them is therefore the cheapest choice of n
    candidates that ends with some candidate before it, and the rows that fit into it but not into that one.

    Args:
        fitting: Integer array [candidates]. Number of rows that fit into each candidate.
        width: Integer array [candidates]. Number of tokens of each row in a batch of it.
        allowed: Function that returns, given a slice, a boolean array [candidates, some]. Whether each candidate can be
            the one before each of some.
    """
    size = max(1, _TABLE // len(width))  # With a long corpus, a table of all pairs of candidates would be too large.
    blocks = [slice(start, start + size) for start in range(0, len(width), size)]
    costs = [fitting * width]  # For each number of candidates, the fewest tokens by the last candidate.
    before = []  # For each number from two on, the candidate before the last one, by the last one.

    def extended(some):
        added = np.where(allowed(some), (fitting[some] - fitting[:, None]) * width[some], np.inf)
        options = costs[-1][:, None] + added
        return options.argmin(axis=0), options.min(axis=0)

    for _ in range(MAX_LENGTHS - 1):
        found = map(np.concatenate, zip(*map(extended, blocks)))
        before.append(next(found))
        costs.append(next(found))

    # Follow the cheapest choice that ends with the last candidate back to its first one.
    count = int(np.argmin([cost[-1] for cost in costs])) + 1
    candidate = len(width) - 1
    chosen = [candidate]
    for found in reversed(before[: count - 1]):
        candidate = int(found[candidate])
        chosen.append(candidate)
    return chosen[::-1]


def _candidates(real, longest):
    """Returns the lengths that rows may be padded to: multiples of 8, of which the last may be `longest`."""
    return np.unique(np.minimum(-(-np.maximum(real, 1) // LENGTH_STEP) * LENGTH_STEP, longest))


def _few(lengths):
    """Returns at most 24 of some lengths."""
    if len(lengths) <= MAX_CANDIDATES:
        return lengths
    return lengths[np.linspace(0, len(lengths) - 1, MAX_CANDIDATES).round().astype(int)]


def sort_within_windows(lengths, batch_size, window):
    """Returns the order that sorts lengths within windows of equal size, at most `window` batches each."""
    count = -(-len(lengths) // batch_size)
    size = -(-count // -(-count // window)) * batch_size
    return np.lexsort((lengths, np.arange(len(lengths)) // size))


def _put_varied_first(found, longest):
    """Moves two batches that differ in length and in rows to the front, if any do. The one with more rows comes first.

    Keras on TensorFlow infers the axes that vary from the first two batches, and builds a model with replicas on the
    first. If no batch of this epoch is one of the longest, the second one becomes as long, for other epochs.
    """
    rows = [len(rows) for _, rows in found]
    short = int(np.argmin(rows))
    others = [i for i in range(len(found)) if found[i][0] != found[short][0]]
    others = others or [i for i in range(len(found)) if rows[i] > rows[short]]
    if others:
        front = sorted([short, others[0]], key=lambda i: (-rows[i], i))
        found = [found[i] for i in front] + [batch for i, batch in enumerate(found) if i not in front]
    if len({length for length, _ in found}) == 1:
        last = min(1, len(found) - 1)
        found[last] = longest, found[last][1]
    return found


def _lengthen_second(found):
    """Pads batches that must keep their order, so that the first two differ in length, if any do: see above.

    If the first two have the largest length, all batches are padded to this length.
    """
    lengths = [length for length, _ in found]
    if len(set(lengths[:2])) == 2 or len(set(lengths)) == 1:
        return found
    end = 2 if lengths[0] < max(lengths) else len(found)
    return found[:1] + [(max(lengths), rows) for _, rows in found[1:end]] + found[end:]
