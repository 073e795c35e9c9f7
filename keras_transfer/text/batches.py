"""Texts in memory as batches of ids, in a few fixed lengths, so that nothing is padded far and nothing recompiles."""

import copy

import keras
import numpy as np

from keras_transfer.text.inputs import to_columns
from keras_transfer.text.preprocessor import preprocess

MAX_LENGTHS = 6
STEP = 8  # lengths are multiples of it, so that two datasets often share them


class _Deals:
    """The random numbers that deal texts out, and how often they did: one for the batches of all replicas."""

    def __init__(self, seed):
        self.seed = seed
        self.begin()

    def begin(self):
        """Goes back to the first random number."""
        self.random, self.epoch = np.random.default_rng(self.seed), 0


class TextBatches(keras.utils.PyDataset):
    """A dataset that `fit`, `evaluate` and `predict` take; made by `batches`.

    Each item is `(inputs, labels)` or `(inputs, labels, sample_weights)`, without labels `(inputs,)`.

    Attributes:
        lengths: list of int, the sequence lengths that occur.
        order: int array, for each row of all batches in order the index of its text.
        epoch: int, how often the texts were dealt out anew. Set it, and they are dealt out as in that epoch.
        seed: int, what the shuffling draws from; another one counts from the next time that `epoch` is set.
    """

    def __init__(self, inputs, labels, sample_weight, batch_size, lengths, shuffle, seed, drop_remainder):
        super().__init__()
        self.inputs = inputs
        self.labels = labels
        self.sample_weight = sample_weight
        self.batch_size = batch_size
        self.lengths = lengths
        self.shuffle = shuffle
        self.drop_remainder = drop_remainder
        self._replicas, self._repeat = 1, False
        if shuffle and seed is None:  # without a seed of its own it follows `keras.utils.set_random_seed`
            seed = np.random.randint(2**31)
        self._deals = _Deals(seed)
        self._bucket_of = np.searchsorted(lengths, _real_lengths(inputs))
        self._plan()

    def _plan(self):
        """Deals the texts out to batches: full ones of each length; what is left over moves to the next length."""
        plan, left_over = [], np.zeros(0, int)
        for bucket, length in enumerate(self.lengths):
            here = np.flatnonzero(self._bucket_of == bucket)
            if self.shuffle:
                self._deals.random.shuffle(here)
            here = np.concatenate([left_over, here])
            full = len(here) // self.batch_size * self.batch_size
            plan += [(length, rows) for rows in here[:full].reshape(-1, self.batch_size)]
            left_over = here[full:]
        if len(left_over) and not self.drop_remainder:
            plan.append((self.lengths[self._bucket_of[left_over].max()], left_over))
        if self.shuffle:
            plan = [plan[i] for i in self._deals.random.permutation(len(plan))]
        self._dealt, self._batches = plan, self._shared(plan)

    def _shared(self, plan):
        """The batches in the order in which Keras takes them, each such that the replicas can share it."""
        count = self._replicas
        if self._repeat:
            plan = [(length, np.resize(rows, -(-len(rows) // count) * count)) for length, rows in plan]
        elif len(plan) == 1:
            length, rows = plan[0]
            even = len(rows) // count * count
            plan = [(length, part) for part in (rows[:even], rows[even:]) if len(part)]
        return _varied_first(plan)

    def for_replicas(self, count, repeat):
        """Returns the same batches such that `count` replicas can share each of them.

        Keras on TensorFlow needs a first batch that they share evenly, and weighs the gradients of all replicas alike,
        however few rows one has; on JAX they share every batch evenly or not at all.

        Args:
            count: int.
            repeat: bool, fill a short batch up with its own rows again, so that the replicas share it evenly; else
                every text comes once, and of a single short batch what they cannot share evenly comes in a second.

        Returns:
            A `TextBatches`, which draws from this one's random numbers.
        """
        other = copy.copy(self)
        other._replicas, other._repeat = count, repeat
        other._batches = other._shared(self._dealt)
        return other

    @property
    def order(self):
        return np.concatenate([rows for _, rows in self._batches])

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        length, rows = self._batches[index]
        inputs = {key: _rows(column, rows, length) for key, column in self.inputs.items()}
        columns = [column[rows] for column in (self.labels, self.sample_weight) if column is not None]
        return (inputs, *columns)

    def on_epoch_end(self):
        self._deals.epoch += 1
        if self.shuffle:
            self._plan()

    @property
    def epoch(self):
        return self._deals.epoch

    @epoch.setter
    def epoch(self, epoch):
        if isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 0:
            raise ValueError(f"`epoch` must be a whole number from 0. Received: {epoch!r}")
        self._deals.begin()
        self._plan()
        for _ in range(epoch):
            self.on_epoch_end()

    @property
    def seed(self):
        return self._deals.seed

    @seed.setter
    def seed(self, seed):
        self._deals.seed = seed

    def restorer(self):
        """Returns a function that puts what `predict` gives for these batches into the order of the texts.

        It is made before `predict`, since another epoch deals the texts out anew.
        """
        at = np.unique(self.order, return_index=True)[1]  # a text that came again, to fill a batch up, counts once
        return lambda outputs: keras.tree.map_structure(lambda output: np.asarray(output)[at], outputs)


def batches(
    texts,
    labels=None,
    preprocessor=None,
    batch_size=32,
    shuffle=True,
    seed=None,
    sample_weight=None,
    lengths=None,
    drop_remainder=False,
):
    """Turns texts and labels into a dataset for `fit`: preprocessed once, batched by length, shuffled every epoch.

    The number of batches is known (`len`), and their sequence lengths are at most six, chosen to waste the least
    padding, so that a compiled step is compiled for few shapes. The batch of what is left over is a short one; where
    replicas share it, `fit` of a task fills it up with some of its own texts again, fewer than there are replicas.

    Args:
        texts: list, tuple, numpy array (object or `<U`) or pandas column of strings; for pairs of texts a tuple of
            two such.
        labels: [texts] ints, or what the loss takes; None for prediction.
        preprocessor: callable from texts to a dict of `token_ids`, `padding_mask` (and others), each [batch, length]:
            `model.preprocessor`, or KerasHub's. What it returns as strings [batch] has no length and stays as it is.
        batch_size: int.
        shuffle: bool, whether batches are drawn anew each epoch.
        seed: int, for the same batches in every run.
        sample_weight: [texts] floats.
        lengths: list of at most six sequence lengths; None to choose them from the texts.
        drop_remainder: bool, leave the short batch out: all batches have `batch_size` rows. Which texts it leaves out
            changes with each shuffling.

    Returns:
        A `TextBatches`.

    Raises:
        ValueError: there are no texts, some are not strings, texts, labels and weights differ in number, or `lengths`
            do not reach the longest text.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "where", "?"])
    train = keras_transfer.text.batches(["Who?", "Where?"], [0, 1], preprocessor, batch_size=2, seed=0)
    ```
    """
    if not callable(preprocessor):
        raise ValueError(
            f"`batches` needs a preprocessor, such as `model.preprocessor`. Received: {preprocessor!r:.100}"
        )
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    texts = to_columns(texts)
    count = _count(texts)
    if count == 0:
        raise ValueError("there are no texts. Received: an empty dataset")
    labels = _column(labels, "labels", count)
    sample_weight = _column(sample_weight, "sample weights", count)
    if sample_weight is not None and labels is None:
        raise ValueError("sample weights need labels. Received: labels=None")
    if drop_remainder and count < batch_size:
        raise ValueError(f"with `drop_remainder` there must be a whole batch of {batch_size}. Received: {count} texts")
    inputs = _preprocess(texts, preprocessor)
    real = _real_lengths(inputs)
    if "padding_mask" not in inputs:
        lengths = [1]
    elif lengths is None:
        lengths = choose_lengths(real, inputs["padding_mask"].shape[1])
    else:
        lengths = sorted(lengths)
        if not 1 <= len(lengths) <= MAX_LENGTHS or lengths[-1] < real.max():
            raise ValueError(
                f"`lengths` must be 1 to {MAX_LENGTHS} and reach the longest text, of {real.max()} tokens. "
                f"Received: {lengths}"
            )
        inputs = {key: _padded(ids, lengths[-1]) for key, ids in inputs.items()}
    return TextBatches(inputs, labels, sample_weight, batch_size, lengths, shuffle, seed, drop_remainder)


def _preprocess(texts, preprocessor, chunk=4096):
    """Returns a dict of int32 arrays [texts, longest], padded as far as the longest text needs and no further."""
    chunks = []
    for start in range(0, _count(texts), chunk):
        part = slice(start, start + chunk)
        columns = tuple(t[part].tolist() for t in texts) if isinstance(texts, tuple) else texts[part].tolist()
        outputs = preprocess(preprocessor, columns)
        outputs = {key: _as_array(value) for key, value in outputs.items()}  # [chunk, full length], or strings [chunk]
        longest = max(int(_real_lengths(outputs).max()), 1)
        longest = -(-longest // STEP) * STEP
        chunks.append({key: value[:, :longest] if value.ndim > 1 else value for key, value in outputs.items()})
    width = max((chunk["padding_mask"].shape[1] for chunk in chunks if "padding_mask" in chunk), default=0)
    return joined(chunks, width)


def joined(chunks, width):
    """Returns dicts of arrays [rows, length, ...] as one dict of arrays [all rows, width, ...]."""
    return {key: np.concatenate([_padded(chunk[key], width) for chunk in chunks]) for key in chunks[0]}


def _as_array(values):
    values = np.asarray(values)
    return values if values.dtype == object else values.astype("int32")


def _real_lengths(inputs):
    """The number of real tokens of each text; 1 where the inputs are strings, which have no length."""
    if "padding_mask" in inputs:
        return inputs["padding_mask"].sum(axis=1)
    return np.ones(len(next(iter(inputs.values()))), int)


def _rows(column, rows, length):
    if column.ndim > 1:
        return column[rows, :length]
    import tensorflow as tf  # numpy's strings are objects to Keras

    return tf.constant(column[rows])


def _padded(ids, width):
    """Ids [texts, width]: with zeros behind, which the mask says are none, or without what is all padding."""
    if ids.ndim == 1:
        return ids
    return np.pad(ids, [(0, 0), (0, max(width - ids.shape[1], 0)), *[(0, 0)] * (ids.ndim - 2)])[:, :width]


def choose_lengths(real, longest):
    """Returns at most six multiples of 8 (the last may be `longest`) that pad the texts the least.

    Args:
        real: int array, the number of real tokens of each text.
        longest: int, the largest length that the inputs have room for.

    Returns:
        Sorted list of int; the best split by dynamic programming over the candidates.
    """
    candidates = np.unique(np.minimum(-(-np.maximum(real, 1) // STEP) * STEP, longest))
    upto = np.concatenate([[0], np.searchsorted(np.sort(real), candidates, side="right")])
    # cost[k, j]: the fewest tokens with k lengths, the largest of which is candidate j - 1.
    size = len(candidates)
    cost = np.full((MAX_LENGTHS + 1, size + 1), np.inf)
    back = np.zeros((MAX_LENGTHS + 1, size + 1), int)
    cost[0, 0] = 0
    for k in range(1, MAX_LENGTHS + 1):
        for j in range(1, size + 1):
            options = cost[k - 1, :j] + (upto[j] - upto[:j]) * candidates[j - 1]
            back[k, j] = np.argmin(options)
            cost[k, j] = options[back[k, j]]
    k, j, chosen = int(np.argmin(cost[:, size])), size, []
    while j:
        chosen.append(int(candidates[j - 1]))
        k, j = k - 1, back[k, j]
    return chosen[::-1]


def _count(texts):
    return len(texts[0] if isinstance(texts, tuple) else texts)


def _column(values, name, count):
    if values is None:
        return None
    values = np.asarray(values)
    if values.ndim == 0 or len(values) != count:
        received = f"{len(values)} {name}" if values.ndim else repr(values.item())
        raise ValueError(f"there must be as many {name} as texts. Received: {received}, {count} texts")
    return values


def _varied_first(plan):
    """The batches with two in front that differ in length, and in rows, where any do; the longer one in rows first.

    Keras on TensorFlow reads off the first two which axes vary, and builds a model with replicas on the first.
    """
    rows = [len(rows) for _, rows in plan]
    short = int(np.argmin(rows))
    others = [i for i in range(len(plan)) if plan[i][0] != plan[short][0]]
    others = others or [i for i in range(len(plan)) if rows[i] > rows[short]]
    if not others:
        return plan
    front = sorted([short, others[0]], key=lambda i: (-rows[i], i))
    return [plan[i] for i in front] + [batch for i, batch in enumerate(plan) if i not in front]
