"""Batches texts in memory by length, so that little padding is needed."""

import copy
import dataclasses

import keras
import numpy as np

from keras_transfer.batches.planning import LENGTH_STEP, MAX_LENGTHS, Options, choose_lengths, lengths_for, plan
from keras_transfer.text.base import as_column, check_batch_size, preprocess, to_columns
from keras_transfer.text.preprocessors import count_truncated, warn_of_truncation


class _Position:
    """Where the batches are, which all copies of them share.

    Attributes:
        seed, epoch: The seed and the number of the epoch.
        first: Integer. The batch with which the rest of a resumed epoch begins.
        next: Integer. The batch that is read next, if they are read in order.
        in_order: Boolean. Whether the batches of this epoch are read in order.
    """

    def __init__(self, seed, epoch=0, first=0):
        self.seed, self.epoch, self.first = seed, epoch, first
        self.next, self.in_order = 0, True


class Batches(keras.utils.PyDataset):
    """Rows in memory as batches for `fit`, `evaluate` and `predict`, made by `batches` and its relatives.

    Each item is `(inputs, labels)` or `(inputs, labels, sample_weights)`, or `(inputs,)` without labels.

    The seed and the epoch alone determine the order. If `shuffle` is `False`, the rows keep their order, so that row
    `i` of the outputs of `predict` belongs to row `i`.

    Args:
        inputs: Dict of arrays [rows, length, ...], or of strings [rows].
        labels: Array [rows, ...], or a dict of such arrays, or None. Defaults to `None`.
        sample_weight: Array [rows, ...], or None. Defaults to `None`.
        options: `Options`.
        seed: Integer. Seed of the order and of `prepare`. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.
        prepare: Function that returns an item, given a tuple of the inputs, the labels (or None) and the weights (or
            None) of a batch, its length, and a `np.random.Generator`. Defaults to `None`, for the item as described
            above.
        makes_labels: Boolean. Whether `prepare` makes the labels. Defaults to `False`.
        kind: String. What a row is: `"texts"`, `"pairs"`, `"parts"` (several texts that are read apart) or `"words"`.
            Defaults to `None`, if it is unknown.
        places: `WordPlaces`, for words. Defaults to `None`.
        label_lengths: Integer array [rows]. The length of each row of labels [rows, length] that are padded on the
            right, such as target texts. A batch has labels as long as its longest ones, in steps of
            `Options.label_lengths`. Defaults to `None`, for labels that are not sequences.

    Attributes:
        options: `Options`.
        order: Integer array. The row in each row of all batches, in order.
        epoch: Integer. Number of epochs that have ended. Can be set.
        seed: Integer. Can be set.
    """

    def __init__(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        options=None,
        seed=None,
        prepare=None,
        makes_labels=False,
        kind=None,
        places=None,
        label_lengths=None,
    ):
        super().__init__()
        self.inputs, self.labels, self.sample_weight = inputs, labels, sample_weight
        self.options = options or Options()
        self.prepare, self.makes_labels, self.kind = prepare, makes_labels, kind
        self.places, self.label_lengths = places, label_lengths
        if seed is None and self.options.shuffle:
            seed = np.random.randint(2**31)
        self.real = real_lengths(inputs)
        self._position, self._chosen, self._planned = _Position(seed), None, None
        self._one_epoch = False

    # === The same rows in another form ===

    def replace(self, **changes):
        """Returns the same rows with other options, or other attributes. It has the same seed and epoch from then on.

        Args:
            **changes: Fields of `Options`, or attributes such as `labels`.
        """
        other = copy.copy(self)
        fields = {name: changes.pop(name) for name in [*changes] if name in Options.__dataclass_fields__}
        other.options, other._planned = dataclasses.replace(self.options, **fields), None
        vars(other).update(changes)
        return other

    def grouped(self):
        """Returns the same rows in batches of similar length, as when they are shuffled.

        This needs less padding. Even without shuffling, the rows are not in their order: see `restorer`.
        """
        return self.replace(grouped=True)

    def few_lengths(self):
        """Returns the same rows in batches of at most six lengths, for a step that is compiled for each length."""
        if len(self.options.lengths) <= MAX_LENGTHS:
            return self
        few = {"lengths": tuple(choose_lengths(self.real, self.inputs["padding_mask"].shape[1]))}
        if self.label_lengths is not None:
            few["label_lengths"] = tuple(choose_lengths(self.label_lengths, self.labels.shape[1]))
        return self.replace(**few)

    def with_targets(self, make, seed=None):
        """Returns the same rows as batches of the inputs and targets of an objective, other ones in each epoch.

        The seed, the epoch and the number of a batch determine what the objective draws, so that a run can be resumed.

        Args:
            make: Function that returns an item, given the inputs of a batch and a `np.random.Generator`.
            seed: Integer. Seed of the order and of the objective. Defaults to `None`, which uses that of the order, or
                a new one.
        """
        seed = self.seed if seed is None else seed
        seed = np.random.randint(2**31) if seed is None else seed
        position = self._position if seed == self.seed else _Position(seed, self.epoch)

        def item(columns, length, random):
            return make(columns[0], random)

        return self.replace(prepare=item, makes_labels=True, _position=position)

    def without_labels(self):
        """Returns the same batches without labels and sample weights. Its epochs do not count as those of others."""
        return self.replace(labels=None, sample_weight=None, makes_labels=False, _position=self._same_place())

    def in_one_epoch(self):
        """Returns the same batches with what `prepare` draws in the first epoch in every epoch, for evaluation.

        Its epochs do not count as those of others.
        """
        return self.replace(_one_epoch=True, _position=self._same_place())

    def _same_place(self, first=0):
        return _Position(self.seed, self.epoch, first)

    def by_length(self):
        """Yields the same batches, padded to few lengths, as one dataset for each length."""
        few = self.few_lengths()
        planned = few.planned()
        for length in sorted({length for length, _ in planned}):
            yield few.pinned([batch for batch in planned if batch[0] == length])

    def each(self):
        """Yields each batch as a dataset of its own."""
        return (self.pinned([batch]) for batch in self.planned())

    def pinned(self, chosen=None):
        """Returns batches that remain the same in all epochs, which do not count as epochs of the others.

        Args:
            chosen: List of `(length, rows)`. Defaults to `None`, for the batches of this epoch.
        """
        first = self._position.first if chosen is None else 0
        chosen = self.planned() if chosen is None else chosen
        return self.replace(_chosen=chosen, _position=self._same_place(first))

    def with_inputs(self, inputs):
        """Returns the same rows in the same batches, with other inputs. Its epochs do not count as those of others."""
        return self.replace(inputs=inputs, _position=self._same_place())

    # === Batches ===

    def planned(self):
        """Returns the batches of this epoch as a list of `(length, rows)`."""
        if self._chosen is not None:
            return self._chosen
        now = (self.seed, self.epoch) if self.options.shuffle else (0, 0)
        if self._planned is None or self._planned[0] != now:
            self._planned = now, plan(self.real, self.options, *now)
        return self._planned[1]

    def extremes(self):
        """Returns two batches, each `(length, rows)`, which differ in each axis whose size varies."""
        lengths, last = self.options.lengths, len(self.real) - 1
        short, long = 0, last
        if self.label_lengths is not None:
            short, long = int(np.argmin(self.label_lengths)), int(np.argmax(self.label_lengths))
        return [(lengths[0], [short]), (lengths[-1], [long, last])]

    @property
    def has_labels(self):
        """Boolean. Whether the items contain labels."""
        return self.labels is not None or self.makes_labels

    @property
    def order(self):
        return np.concatenate([rows for _, rows in self.planned()])

    def __len__(self):
        return len(self.planned()) - self._position.first

    def __getitem__(self, index):
        position = self._position
        position.in_order, position.next = position.in_order and index == position.next, index + 1
        index += position.first
        length, rows = self.planned()[index]
        inputs = {key: _take(column, rows, length) for key, column in self.inputs.items()}
        labels, weights = (
            None if columns is None else keras.tree.map_structure(lambda column: column[rows], columns)
            for columns in (self.labels, self.sample_weight)
        )
        if labels is not None and self.label_lengths is not None:
            allowed, longest = self.options.label_lengths, self.label_lengths[rows].max()
            labels = labels[:, : allowed[np.searchsorted(allowed, longest)]]
        if self.prepare is None:
            return (inputs, *(column for column in (labels, weights) if column is not None))
        random = np.random.default_rng([self.seed or 0, 0 if self._one_epoch else self.epoch, index])
        return self.prepare((inputs, labels, weights), length, random)

    def on_epoch_begin(self):
        self._position.next, self._position.in_order = 0, True

    def on_epoch_end(self):
        self._position.epoch += 1
        self._position.first = 0

    def restorer(self):
        """Returns a function that puts the outputs of `predict` for these batches into the order of the rows.

        Call `restorer` before `predict`, because the next epoch has another order.
        """
        first = np.unique(self.order, return_index=True)[1]  # a row may be repeated to fill a batch
        return lambda outputs: keras.tree.map_structure(lambda output: np.asarray(output)[first], outputs)

    # === Position ===

    @property
    def epoch(self):
        return self._position.epoch

    @epoch.setter
    def epoch(self, epoch):
        if isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 0:
            raise ValueError(f"`epoch` must be an integer of at least 0. Received: epoch={epoch!r}")
        self._position.epoch = int(epoch)

    @property
    def seed(self):
        return self._position.seed

    @seed.setter
    def seed(self, seed):
        self._position.seed = seed

    def state_dict(self):
        """Returns the seed, the epoch, and the batch with which the epoch begins, as a dict.

        The batch is missing if the batches are not read in order, because `fit` shuffles them again. Then a run cannot
        be resumed in the middle of an epoch.
        """
        state = {"seed": self.seed, "epoch": self.epoch}
        return {**state, "batch": self._position.first} if self._position.in_order else state

    def load_state_dict(self, state):
        """Continues where other batches of the same rows were, given what their `state_dict` returned.

        This epoch then has only the batches from `state["batch"]` on.
        """
        self.seed, self.epoch = state["seed"], state["epoch"]
        self._position.first = state.get("batch", 0)


def batches(
    x,
    y=None,
    *,
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
        x: List, tuple, NumPy array or pandas column of strings; for pairs, a tuple of two.
        y: List or array [texts] of integers, or of any values that the loss accepts. `None` for prediction.
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
        `Batches`.

    Raises:
        ValueError: If there are no texts, if some are not strings, if texts, labels and weights differ in number, if
            the preprocessor pads on the left, or if `lengths` are shorter than the longest text.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "where", "?"])
    train = keras_transfer.text.batches(["Who?", "Where?"], [0, 1], preprocessor=preprocessor, batch_size=2, seed=0)
    ```
    """
    x = to_columns(x)
    count = _count(x)
    check_batch_size(preprocessor, batch_size, count, drop_remainder)
    if isinstance(y, dict):  # of several heads
        y = {name: as_column(column, "labels", count) for name, column in y.items()}
    else:
        y = as_column(y, "labels", count)
    sample_weight = as_column(sample_weight, "sample weights", count)
    shuffle = y is not None if shuffle is None else shuffle
    if sample_weight is not None and y is None:
        raise ValueError("`sample_weight` requires `y`. Received: y=None")
    kind = "pairs" if isinstance(x, tuple) else "texts"
    inputs = preprocess_texts(x, preprocessor)
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
    options = Options(batch_size, tuple(lengths), shuffle, drop_remainder=drop_remainder)
    return Batches(inputs, y, sample_weight, options, seed, kind=kind)


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
