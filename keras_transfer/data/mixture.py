"""Batches of several datasets in one order, which come from one of them each, or from two."""

import bisect
import contextlib

import numpy as np

from keras_transfer.core.expect import Rule, expect, number
from keras_transfer.data.batching import Batches
from keras_transfer.data.source import Source

_EXPONENTS = {"proportional": 1.0, "square_root": 0.5, "equal": 0.0}
_END = 0.2  # The exponent of "annealed" in the last epoch.

SAMPLING = Rule(
    f"one of {[*_EXPONENTS, 'annealed']}, or the exponent of the sizes, from 0 to 1",
    lambda value: value == "annealed" or value in [*_EXPONENTS] or number(0, 1).is_met(value),
    ("random", 1.5, None),
)


def shares(sizes, sampling, epoch=0, epochs=1):
    """Returns the probabilities with which a batch comes from each dataset.

    Args:
        sizes: List of integers. The number of rows of each dataset.
        sampling: String or float, as of `tasks.MultiTask`.
        epoch: Integer. The current epoch, counted from 0.
        epochs: Integer. The number of epochs of the run.

    Returns:
        Float array.
    """
    if sampling == "annealed":
        exponent = 1 - (1 - _END) * epoch / max(epochs - 1, 1)  # The formula divides by 0 for a single epoch.
    else:
        exponent = _EXPONENTS.get(sampling, sampling)
    powers = np.array(sizes, "float64") ** exponent
    return powers / powers.sum()


class Mixture(Source):
    """Batches of several datasets in one order, which a seed and the epoch determine.

    A dataset begins again when all of its batches were read, whatever the epoch of the mixture. With a loader, the
    mixture has no state.

    Args:
        parts: Dict from names to `Batches` or to a `Stream`.
        sampling: String or float, as of `tasks.MultiTask`.
        epochs: Integer. The number of epochs of the run.
        steps: Integer. The number of batches of an epoch. Defaults to `None`, the number of batches of all datasets.
        seed: Integer. The seed of the order of the datasets. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.
        replicas: Integer. The number of replicas, among which Keras divides what it counts. Defaults to `1`.

    Attributes:
        loaders: Dict from the names of loaders to iterators of their items.
    """

    in_memory = reshuffled = True

    def __init__(self, parts, sampling, epochs, steps=None, seed=None, replicas=1):
        self.parts = {name: part.apart() if part.in_memory else part for name, part in parts.items()}
        self.loaders = {name: _endless(name, part) for name, part in parts.items() if not part.in_memory}
        self.sampling, self.epochs, self.replicas = sampling, epochs, replicas
        counts = [len(part) if part.in_memory else part.count for part in parts.values()]
        is_planned = steps is not None and sampling in ("equal", 0)
        rule = 'A loader without a length requires `steps_per_epoch`, and a `MultiTask` with `sampling="equal"`.'
        expect(is_planned or None not in counts, rule, steps_per_epoch=steps, sampling=sampling)
        self.steps = sum(counts) if steps is None else steps
        self.seed = np.random.randint(2**31) if seed is None else seed
        self.epoch = self._first = 0
        self._begin = {name: part.epoch for name, part in parts.items()}
        self._ends = {name: [0] for name in parts}

    def shares(self, epoch):
        """Returns the probability of each dataset in an epoch."""
        sizes = [len(part.real) if part.in_memory else _rows_of(part) for part in self.parts.values()]
        return shares(sizes, self.sampling, epoch, self.epochs)

    def _draws(self, epoch):
        random = np.random.default_rng([self.seed, epoch])
        return random.choice(len(self.parts), self.steps, p=self.shares(epoch))

    def planned(self):
        """Returns the batches of this epoch as a list of the name of a dataset and the number of its batch."""
        names, found = list(self.parts), []
        earlier = (np.bincount(self._draws(epoch), minlength=len(names)) for epoch in range(self.epoch))
        counts = sum(earlier, start=np.zeros(len(names), int))
        for part in self._draws(self.epoch):
            found.append((names[part], int(counts[part])))
            counts[part] += 1
        return found

    def __len__(self):
        return self.steps - self._first

    def __iter__(self):
        """Yields the name of a dataset and an item, for the batches of this epoch that are left."""
        for name, batch in self.planned()[self._first :]:
            if name in self.loaders:
                yield name, next(self.loaders[name])
                continue
            part, ends = self.parts[name], self._ends[name]
            while ends[-1] <= batch:
                part.epoch = self._begin[name] + len(ends) - 1
                ends.append(ends[-1] + len(part))
            epoch = bisect.bisect_right(ends, batch) - 1
            part.epoch = self._begin[name] + epoch
            yield name, part[batch - ends[epoch]]

    def endless(self):
        """Yields the items of this epoch that are left, and then those of each epoch that has begun."""
        while True:
            yield from self

    def for_keras(self, may_end_early=False):
        """Returns what Keras counts. The model reads the batches itself, because Keras expects one structure of all."""
        return np.arange(self.steps * self.replicas)

    # === A run ===

    def on_epoch_end(self):
        self.epoch, self._first = self.epoch + 1, 0

    def seek(self, batch):
        """Begins this epoch, and no later one, with a batch."""
        self._first = batch

    def state_dict(self):
        """Returns the seeds, the epoch, and the batch with which the epoch begins."""
        seeds = {name: [part.seed, self._begin[name]] for name, part in self.parts.items()}
        return {"seed": self.seed, "epoch": self.epoch, "batch": self._first, "parts": seeds}

    def load_state_dict(self, state):
        """Continues from the state of another mixture of the same datasets."""
        self.seed, self.epoch, self._first = state["seed"], state["epoch"], state.get("batch", 0)
        for name, (seed, begin) in state["parts"].items():
            self.parts[name].seed, self._begin[name], self._ends[name] = seed, begin, [0]

    def identity(self):
        """Returns what determines the batches, except for rows in memory and what `state_dict` returns."""
        parts = {name: part.identity() for name, part in self.parts.items()}
        return {"sampling": self.sampling, "epochs": self.epochs, "steps": self.steps, "parts": parts}

    def digest(self):
        """Returns the digests of the rows of all datasets as a list."""
        return [part.digest() for part in self.parts.values()]


@contextlib.contextmanager
def errors_of(name):
    """Adds the name of a task to errors about its data."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"The data of the task {name!r}: {error}") from None


def _rows_of(stream):
    """Returns the number of rows of a loader, if its batches are equally large, and 1 if its length is unknown."""
    return 1 if stream.count is None else stream.count * len(stream.first.real)


def _endless(name, stream):
    """Yields the items of a loader, which begins again when it ends."""
    stream.position = None  # Otherwise, it would keep the states of all batches for a run to be resumed.
    while True:
        with errors_of(name):
            item = None
            for item in stream.items():
                yield item
            rule = "The loader yields its batches only once, and they do not suffice. Pass fewer `steps_per_epoch`."
            expect(item is not None, rule, received="no further batch")


class WithLabeled(Batches):
    """Batches of rows without labels, each with a batch of rows that have labels.

    The latter begin again in another order when all were read. Their rows are random, and not of similar length, since
    batches of few rows would otherwise be the same in each epoch, with the classes of short texts in one of them.

    Items are `({..., "unlabeled": (inputs, ...)}, labels, ...)`, with the inputs of the rows with labels.

    Args:
        rows: `Batches` of the rows without labels. Labels only mark the places that words have.
        labeled: `Batches` of the others.
    """

    has_labels = True

    def __init__(self, rows, labeled):
        super().__init__(rows.inputs, rows.labels, None, rows.options, None, rows.contents)
        self.labeled = labeled.few_lengths()  # A step may be compiled for each pair of lengths.

    def _item(self, index):
        unlabeled, (seed, epoch), data = super()._item(index), self._random_state(), self.labeled
        count = len(data.real)
        size = min(data.options.batch_size, count)
        begin = (epoch * len(self.planned()) + self._position.first + index) * size
        rounds = range(begin // count, (begin + size - 1) // count + 1)
        order = np.concatenate([np.random.default_rng([seed, number]).permutation(count) for number in rounds])
        rows = order[begin % count :][:size]
        length = data.options.lengths[np.searchsorted(data.options.lengths, data.real[rows].max())]
        inputs, *labels = data.pinned([(length, rows)])[0]
        return {**inputs, "unlabeled": unlabeled}, *labels

    @property
    def spec(self):
        (inputs, *_), (own, *labels) = super().spec, self.labeled.spec
        return {**own, "unlabeled": inputs["unlabeled"]}, *labels

    def digest(self):
        return [super().digest(), self.labeled.digest()]
