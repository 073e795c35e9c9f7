"""Batches texts in memory by length, so that little padding is needed."""

import copy

import keras
import numpy as np

from keras_transfer.batches.lengths import (
    LENGTH_STEP,
    MAX_LENGTHS,
    WINDOW,
    choose_lengths,
    lengthen_first,
    lengths_for,
    put_varied_first,
    sort_within_windows,
)
from keras_transfer.text.base import as_column, check_batch_size, preprocess, to_columns
from keras_transfer.text.preprocessors import count_truncated, warn_of_truncation


class _ShuffleState:
    """The state that changes from epoch to epoch, shared by all copies of the batches.

    Attributes:
        random: The random numbers of the shuffling.
        orders: Tuple of two integer arrays, the orders of the texts and of the batches in this epoch.
        epoch: Integer. Number of epochs that have ended.
        uniform: Boolean. Whether all batches of an epoch had the same length. Keras on TensorFlow may then have
            inferred that the length is fixed, so all later batches have the length of the longest text.
        first: Integer. The batch with which the rest of a resumed epoch begins.
        next: Integer. The batch that is read next, if they are read in order.
        in_order: Boolean. Whether the batches of this epoch are read in order.
    """

    def __init__(self, seed):
        self.seed = seed
        self.reset()

    def reset(self):
        """Goes back to the first epoch."""
        self.random, self.epoch, self.uniform = np.random.default_rng(self.seed), 0, False
        self.orders = None
        self.first, self.next, self.in_order = 0, 0, True


class TextBatches(keras.utils.PyDataset):
    """A dataset for `fit`, `evaluate` and `predict`, made by `batches`.

    Each item is `(inputs, labels)` or `(inputs, labels, sample_weights)`, or `(inputs,)` without labels.

    If `shuffle` is `False`, the texts keep their order, so that row `i` of the outputs of `predict` belongs to text
    `i`.

    Attributes:
        lengths: List of integers, the sequence lengths that may occur.
        order: Integer array, the index of the text in each row of all batches, in order.
        epoch: Integer, the number of times that the texts were reshuffled. Setting it shuffles the texts as in that
            epoch.
        seed: Integer, the seed of the shuffling. A new value takes effect the next time that `epoch` is set.
        kind: String. `"texts"` for single texts, `"pairs"` for pairs, or `None` if it is unknown.
    """

    kind = None
    _min_rows = 1

    def __init__(self, inputs, labels, sample_weight, batch_size, lengths, shuffle, seed, drop_remainder):
        super().__init__()
        self.inputs = inputs
        self.labels = labels
        self.sample_weight = sample_weight
        self.batch_size = batch_size
        self.lengths = lengths
        self.shuffle = shuffle
        self.drop_remainder = drop_remainder
        self._replicas, self._repeat, self._grouped = 1, False, bool(shuffle)
        if shuffle and seed is None:  # without a seed of its own, the order follows `keras.utils.set_random_seed`
            seed = np.random.randint(2**31)
        self._state = _ShuffleState(seed)
        self._needed = np.take(lengths, np.searchsorted(lengths, real_lengths(inputs)))
        self._shuffle()

    def _shuffle(self):
        """Draws the orders of the texts and of the batches in an epoch, and arranges the batches."""
        count, size = len(self._needed), self.batch_size
        rows = self._state.random.permutation(count) if self.shuffle else np.arange(count)
        rows = rows[: count // size * size] if self.drop_remainder else rows
        order = np.arange(-(-len(rows) // size))
        self._state.orders = rows, self._state.random.permutation(order) if self.shuffle else order
        self._arrange()

    def _arrange(self):
        """Divides the texts into batches and pads each batch."""
        rows, order = self._state.orders
        if self._grouped:
            # With few lengths, one window is enough: texts of the same length remain in random order.
            window = WINDOW if self.shuffle and len(self.lengths) > MAX_LENGTHS else len(rows)
            rows = rows[sort_within_windows(self._needed[rows], self.batch_size, window)]
        cuts = range(self.batch_size, len(rows), self.batch_size)
        if cuts and len(rows) - cuts[-1] < self._min_rows:
            cuts = cuts[:-1]
        plan = np.split(rows, cuts)
        self._arranged = self._state.orders, self._pad([plan[i] for i in order if i < len(plan)])

    @property
    def _batches(self):
        """List of `(length, rows)` in the current order, without those that a resumed run has trained on before."""
        return self._whole_epoch[self._state.first :]

    @property
    def _whole_epoch(self):
        """List of `(length, rows)` in the current order, which a copy of these batches may have drawn."""
        if self._arranged[0] is not self._state.orders:
            self._arrange()
        return self._arranged[1]

    def _pad(self, plan):
        """Returns `(length, rows)` of each batch in the order in which Keras takes them; replicas can share them."""
        count = self._replicas
        if self._repeat:
            plan = [np.resize(rows, -(-len(rows) // count) * count) for rows in plan]
        elif len(plan) == 1:
            even = len(plan[0]) // count * count
            plan = [part for part in np.split(plan[0], [even]) if len(part)]
        plan = [(int(self._needed[rows].max()), rows) for rows in plan]
        if not self._grouped:
            return lengthen_first(plan)
        if self.shuffle:
            self._state.uniform |= len({length for length, _ in plan}) == 1
        if self._state.uniform:
            plan = [(int(self._needed.max()), rows) for _, rows in plan]
        return put_varied_first(plan)

    def grouped(self):
        """Returns the same texts in batches of similar length, as when they are shuffled.

        This needs less padding. Even without shuffling, the rows are not in the order of the texts: see `restorer`.
        """
        if self._grouped:
            return self
        other = copy.copy(self)
        other._grouped = True
        other._arrange()
        return other

    def few_lengths(self):
        """Returns the same texts in batches of at most six lengths, for a step that is compiled for each length."""
        if len(self.lengths) <= MAX_LENGTHS:
            return self
        other = copy.copy(self)
        other.lengths = choose_lengths(self._needed, self.inputs["padding_mask"].shape[1])
        other._needed = np.take(other.lengths, np.searchsorted(other.lengths, self._needed))
        other._arrange()
        return other

    def by_length(self):
        """Yields the same batches, padded to few lengths, as one dataset for each length."""
        few = self.few_lengths()
        for length in sorted({length for length, _ in few._batches}):
            yield few._part([batch for batch in few._batches if batch[0] == length])

    def each(self):
        """Yields each batch as a dataset of its own."""
        return map(self._part, [[batch] for batch in self._batches])

    def _part(self, batches):
        """Returns a dataset of some of these batches."""
        part = copy.copy(self)
        # Keras also ends an epoch after `predict`. This must neither shuffle this part nor count as an epoch of the
        # others.
        part.shuffle, part._state = False, copy.copy(self._state)
        part._state.first = 0
        part._arranged = part._state.orders, batches
        return part

    def with_inputs(self, inputs):
        """Returns the same texts in the same batches, with other inputs and independent shuffling from then on."""
        other = copy.copy(self)
        other.inputs, other._state = inputs, copy.deepcopy(self._state)
        return other

    def with_min_rows(self, count):
        """Returns the same batches, with a last batch of fewer rows than `count` added to the batch before it."""
        other = copy.copy(self)
        other._min_rows = count
        other._arrange()
        return other

    def with_labels(self, labels):
        """Returns the same batches with other labels [texts, ...]."""
        other = copy.copy(self)
        other.labels = labels
        return other

    def without_labels(self):
        """Returns the same batches, without labels and sample weights."""
        other = copy.copy(self)
        other.labels = other.sample_weight = None
        return other

    def for_replicas(self, count, repeat):
        """Returns the same batches such that `count` replicas can share each of them.

        Keras on TensorFlow requires that the replicas share the first batch evenly, and weights their gradients
        equally, regardless of how many rows each replica has. On JAX the replicas share every batch evenly.

        Args:
            count: Integer. Number of replicas.
            repeat: Boolean. Whether a short batch is filled up by repeating its own rows, so that the replicas share it
                evenly. Otherwise every text occurs once, and if there is only one batch, the rows that the replicas
                cannot share evenly become a second batch.

        Returns:
            A `TextBatches` that shares the random numbers of this one.
        """
        other = copy.copy(self)
        other._replicas, other._repeat = count, repeat
        other._arrange()
        return other

    @property
    def has_labels(self):
        """Boolean. Whether the items contain labels."""
        return self.labels is not None

    @property
    def order(self):
        return np.concatenate([rows for _, rows in self._batches])

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        state = self._state
        state.in_order, state.next = state.in_order and index == state.next, index + 1
        length, rows = self._batches[index]
        inputs = {key: _take(column, rows, length) for key, column in self.inputs.items()}
        columns = [column[rows] for column in (self.labels, self.sample_weight) if column is not None]
        return (inputs, *columns)

    def on_epoch_begin(self):
        self._state.next, self._state.in_order = 0, True

    def on_epoch_end(self):
        self._state.epoch += 1
        self._state.first = 0
        if self.shuffle:
            self._shuffle()

    @property
    def epoch(self):
        return self._state.epoch

    @epoch.setter
    def epoch(self, epoch):
        if isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 0:
            raise ValueError(f"`epoch` must be an integer of at least 0. Received: epoch={epoch!r}")
        self._state.reset()
        self._shuffle()
        for _ in range(epoch):
            self.on_epoch_end()

    @property
    def seed(self):
        return self._state.seed

    @seed.setter
    def seed(self, seed):
        self._state.seed = seed

    def state_dict(self):
        """Returns what decides the order of the batches, and the batch with which the epoch begins.

        The batch is missing if the batches are not read in order, because `fit` shuffles them again. Then a run cannot
        be resumed in the middle of an epoch.
        """
        state = {"seed": self.seed, "epoch": self.epoch}
        return {**state, "batch": self._state.first} if self._state.in_order else state

    def load_state_dict(self, state):
        """Restores what `state_dict` returned. The epoch has only the batches from `state["batch"]` on."""
        self.seed = state["seed"]
        self.epoch = state["epoch"]
        self._state.first = state.get("batch", 0)

    def restorer(self):
        """Returns a function that puts the outputs of `predict` for these batches into the order of the texts.

        Call `restorer` before `predict`, because the next epoch is shuffled again.
        """
        first = np.unique(self.order, return_index=True)[1]  # a text may be repeated to fill a batch
        return lambda outputs: keras.tree.map_structure(lambda output: np.asarray(output)[first], outputs)


def batches(
    texts,
    labels=None,
    preprocessor=None,
    batch_size=32,
    shuffle=None,
    seed=None,
    sample_weight=None,
    lengths=None,
    drop_remainder=False,
):
    """Turns texts and labels into a dataset for `fit`: preprocessed once, batched by length, shuffled every epoch.

    Without labels, it is a dataset for `predict` of any Keras model: the batches keep the order of the texts.

    The number of batches is known (`len`). Before each epoch, the texts are shuffled and divided into windows of at
    most 50 batches. Each window is sorted by length and cut into batches, and the batches of all windows are shuffled.
    A batch is as long as its longest text. Where Keras compiles a step for each length (on JAX, on a GPU or TPU, and
    in tasks with `jit_compile=True`), there are at most six lengths, chosen to waste the least padding, and one window.

    The last texts form a short batch. If replicas share it, `fit` of a task fills it up by repeating some of its texts.
    If the preprocessor truncates texts, a warning says how many.

    Args:
        texts: List, tuple, NumPy array or pandas column of strings; for pairs, a tuple of two.
        labels: List or array [texts] of integers, or of any values that the loss accepts. `None` for prediction.
            Defaults to `None`.
        preprocessor: Callable from texts to a dict of `token_ids`, `padding_mask` and others, each [batch, length]:
            `model.preprocessor`, or one of KerasHub's. Padding must be on the right. A preprocessor may also return
            strings [batch], which are not padded.
        batch_size: Integer. Number of texts in a batch. Defaults to `32`.
        shuffle: Boolean. Whether texts are shuffled before each epoch and batched by length. If `False`, batches keep
            the order of the texts, as `predict` requires, and need more padding. Defaults to `True` for texts with
            labels, `False` for texts without.
        seed: Integer. Seed of the shuffling, for the same batches in every run. Defaults to `None`.
        sample_weight: List or array [texts] of floats. Defaults to `None`.
        lengths: List of at most six sequence lengths to use instead of the chosen ones, such as `[128]` for a step of
            fixed shape. Defaults to `None`.
        drop_remainder: Boolean. Whether the short batch is dropped, so that all batches have `batch_size` rows. Each
            shuffle drops different texts. Defaults to `False`.

    Returns:
        A `TextBatches`.

    Raises:
        ValueError: If there are no texts, if some are not strings, if texts, labels and weights differ in number, if
            the preprocessor pads on the left, or if `lengths` are shorter than the longest text.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "where", "?"])
    train = keras_transfer.text.batches(["Who?", "Where?"], [0, 1], preprocessor, batch_size=2, seed=0)
    ```
    """
    texts = to_columns(texts)
    count = _count(texts)
    check_batch_size(preprocessor, batch_size, count, drop_remainder)
    labels = as_column(labels, "labels", count)
    sample_weight = as_column(sample_weight, "sample weights", count)
    shuffle = labels is not None if shuffle is None else shuffle
    if sample_weight is not None and labels is None:
        raise ValueError("Sample weights require labels. Received: labels=None")
    kind = "pairs" if isinstance(texts, tuple) else "texts"
    inputs = preprocess_texts(texts, preprocessor)
    real = real_lengths(inputs)
    if "padding_mask" not in inputs:
        lengths = [1]
    elif lengths is None:
        lengths = lengths_for(real, inputs["padding_mask"].shape[1])
    else:
        lengths = sorted(lengths)
        if not 1 <= len(lengths) <= MAX_LENGTHS or lengths[-1] < real.max():
            raise ValueError(
                f"`lengths` must contain 1 to {MAX_LENGTHS} lengths, the largest at least that of the longest text, "
                f"which has {real.max()} tokens. Received: lengths={lengths}"
            )
        inputs = {key: fit_to(ids, lengths[-1]) for key, ids in inputs.items()}
    found = TextBatches(inputs, labels, sample_weight, batch_size, lengths, shuffle, seed, drop_remainder)
    found.kind = kind
    return found


def preprocess_texts(texts, preprocessor, chunk=4096):
    """Returns a dict of int32 arrays [texts, length], padded only to the longest text."""
    chunks, truncated = [], 0
    for start in range(0, _count(texts), chunk):
        part = slice(start, start + chunk)
        columns = tuple(t[part].tolist() for t in texts) if isinstance(texts, tuple) else texts[part].tolist()
        outputs = preprocess(preprocessor, columns)
        outputs = {key: _as_array(value) for key, value in outputs.items()}  # [chunk, full length], or strings [chunk]
        _check_padding(outputs, start)
        truncated += count_truncated(preprocessor, columns, outputs)
        longest = max(int(real_lengths(outputs).max()), 1)
        longest = -(-longest // LENGTH_STEP) * LENGTH_STEP
        chunks.append({key: value[:, :longest] if value.ndim > 1 else value for key, value in outputs.items()})
    warn_of_truncation(preprocessor, truncated, _count(texts))
    length = max((chunk["padding_mask"].shape[1] for chunk in chunks if "padding_mask" in chunk), default=0)
    return concatenate(chunks, length)


def _check_padding(outputs, start):
    """Raises a `ValueError` if trimming batches on the right would remove tokens."""
    if "padding_mask" not in outputs:
        padded = [key for key, value in outputs.items() if value.ndim > 1]
        if padded:
            raise ValueError(f"The preprocessor must return a `padding_mask`. Received: only {padded}")
        return
    mask = outputs["padding_mask"]
    wrong = np.flatnonzero((mask[:, 1:] > mask[:, :-1]).any(axis=1))
    if len(wrong):
        received = np.array2string(mask[wrong[0]], threshold=20)
        raise ValueError(
            "The preprocessor must pad texts on the right, so that ones come before zeros in `padding_mask`. "
            f"Received: padding_mask={received} for the text at position {start + wrong[0]}"
        )


def concatenate(chunks, length):
    """Joins dicts of arrays [rows, length, ...] into one dict of arrays [all rows, length, ...]."""
    return {key: np.concatenate([fit_to(chunk[key], length) for chunk in chunks]) for key in chunks[0]}


def _as_array(values):
    values = np.asarray(values)
    return values if values.dtype == object else values.astype("int32")


def real_lengths(inputs):
    """Returns the number of real tokens of each row (of its longest part, if it has parts), or 1 for strings."""
    if "padding_mask" in inputs:
        real = inputs["padding_mask"].sum(axis=1)
        return real if real.ndim == 1 else real.max(axis=1)
    return np.ones(len(next(iter(inputs.values()))), int)


def _take(column, rows, length):
    if column.ndim > 1 and column.dtype != object:
        return column[rows, :length]
    import tensorflow as tf  # Keras cannot convert NumPy's object arrays of strings

    return tf.constant(column[rows])


def fit_to(ids, length):
    """Returns ids [texts, length], padded with zeros (which the mask marks as padding) or trimmed of padding."""
    if ids.ndim == 1:
        return ids
    return np.pad(ids, [(0, 0), (0, max(length - ids.shape[1], 0)), *[(0, 0)] * (ids.ndim - 2)])[:, :length]


def _count(texts):
    return len(texts[0] if isinstance(texts, tuple) else texts)
