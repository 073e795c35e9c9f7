"""Rows in memory as batches, in an order that a seed and an epoch determine."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.core.arrays import data_digest, without_float64
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.data.layout import ALONE, Layout, real_lengths
from keras_transfer.data.planning import (
    MAX_LENGTHS,
    Options,
    Part,
    choose_lengths,
    choose_pairs,
    compiles_each_length,
    lengths_for,
    plan,
    put_apart,
)
from keras_transfer.data.source import Source
from keras_transfer.distribute import ALL, fill_up, repeat_rows

UNUSED = -1  # The label or target at places that a row does not use.


@dataclasses.dataclass(frozen=True)
class Contents:
    """What is in a row, and how a batch of rows becomes an item.

    Args:
        layout: `Layout`. Which rows belong to a row of the user, and where in them its answers are.
        per_token: Boolean. Whether labels and weights are [rows, length], as long as the inputs.
        prepare: Function that returns an item, given a tuple of the inputs, the labels (or None) and the weights (or
            None) of a batch, and a `np.random.Generator`. `None` for an item of those that there are.
        makes_labels: Boolean. Whether `prepare` makes labels.
        real_labels: Integer array [rows]. The length of each row of labels [rows, length] that are padded on the right,
            such as target texts.
        seed: Integer. Seed of what `prepare` draws, and of the order of batches without a seed of their own. `None` for
            the seed of the batches.
        number: Integer. Number of batches before these, if they are a batch of a stream.
        parts_apart: Boolean. Whether labels [rows, parts] are numbers of texts, and rows with equal ones are put into
            different batches where possible.
    """

    layout: Layout = ALONE
    per_token: bool = False
    prepare: object = None
    makes_labels: bool = False
    real_labels: Any = None
    seed: int | None = None
    number: int = 0
    parts_apart: bool = False


@dataclasses.dataclass
class Position:
    """Where batches are, which all copies of them share.

    Attributes:
        seed: Integer. Seed of the order, or `None` if rows keep their order and nothing is drawn.
        first: Integer. The batch with which the rest of a resumed epoch begins.
        next: Integer. The batch that is read next, if they are read in order.
        in_order: Boolean. Whether the batches of this epoch are read in order.
    """

    seed: int | None
    epoch: int = 0
    first: int = 0
    next: int = 0
    in_order: bool = True


class Batches(Source, keras.utils.PyDataset):
    """Rows in memory as batches for `fit`, `evaluate` and `predict`, made by `batches` and its relatives.

    Each item is `(inputs, labels)` or `(inputs, labels, sample_weights)`, or `(inputs,)` without labels.

    The seed and the epoch alone determine the order. If `shuffle` is `False`, the rows keep their order, so that row
    `i` of the outputs of `predict` belongs to row `i`.

    Args:
        inputs: Dict of arrays `[rows, length, ...]`, or of strings `[rows]`.
        labels: Array `[rows, ...]`, or a dict of such arrays. Defaults to `None`, no labels.
        sample_weight: Array `[rows, ...]`. Defaults to `None`, no weights.
        options: `Options`. Defaults to `None`, `Options()`.
        seed: Integer. Seed of the order and of `prepare`. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.
        contents: `Contents`. Defaults to `None`, `Contents()`.

    Attributes:
        chosen: List of `(length, rows)`, the batches of every epoch, or `None` for the planned ones.
    """

    in_memory = True

    def __init__(
        self,
        inputs: Mapping,
        labels: Any = None,
        sample_weight: Any = None,
        options: Options | None = None,
        seed: int | None = None,
        contents: Contents | None = None,
    ):
        self.inputs = inputs
        self.labels, self.sample_weight = without_float64(labels), without_float64(sample_weight)
        self.options, self.contents = options or Options(), contents or Contents()
        self._seeded = seed is not None or not self.options.shuffle
        super().__init__()
        drawn = np.random.randint(2**31) if seed is None and self.options.shuffle else seed
        self._position = Position(None if drawn is None else integer(0).check("seed", drawn))
        self.real = self._real_lengths()
        self.chosen: Any = None
        self._planned: Any = None

    def _real_lengths(self):
        return real_lengths(self.inputs)

    def check_preprocessor(self, preprocessor: Any) -> None:
        """Raises a `ValueError` if the ids are known to come from another tokenizer, which only subclasses know.

        Args:
            preprocessor: Preprocessor of the model.
        """

    @classmethod
    def of(
        cls,
        inputs: Mapping,
        labels: Any = None,
        sample_weight: Any = None,
        contents: Contents | None = None,
        *,
        batch_size: int,
        shuffle: bool | None = None,
        seed: int | None = None,
        lengths: Sequence[int] | None = None,
        drop_remainder: bool = False,
    ) -> Self:
        """Groups rows into batches of the lengths that `lengths_for` chooses, or `choose_pairs` for labels with
        lengths.

        Args:
            inputs: Dict of arrays `[rows, length, ...]`, or of strings `[rows]`.
            labels: Array `[rows, ...]`, or a dict of such arrays. Defaults to `None`, no labels.
            sample_weight: Array `[rows, ...]`. Defaults to `None`, no weights.
            contents: `Contents`. Defaults to `None`, `Contents()`.
            batch_size: Integer. Number of rows in a batch.
            shuffle: Boolean. Whether to shuffle in each epoch. Defaults to `None`, which shuffles rows with labels.
            seed: Integer. Seed of the order. Defaults to `None`, a seed that follows `keras.utils.set_random_seed`.
            lengths: List of integers in ascending order, the lengths of the batches. Defaults to `None`, chosen ones.
            drop_remainder: Boolean. Whether a short batch is left out. Defaults to `False`.

        Returns:
            `Batches`.
        """
        if lengths is None:
            mask = inputs.get("padding_mask")
            lengths = [1] if mask is None else lengths_for(real_lengths(inputs), mask.shape[-1])
        shuffle = labels is not None if shuffle is None else shuffle
        options = Options(batch_size, tuple(lengths), shuffle, drop_remainder=drop_remainder)
        data = cls(inputs, labels, sample_weight, options, seed, contents)
        return data.few_lengths() if data.contents.real_labels is not None and compiles_each_length() else data

    # === The same rows in another form ===

    def replace(self, **changes: Any) -> Self:
        """Returns the same rows with other options, contents or columns. It has the same seed and epoch from then on.

        Args:
            **changes: Fields of `Options` or `Contents`, or `inputs`, `labels` or `sample_weight`.

        Returns:
            `Batches`.

        Raises:
            TypeError: If there is no such field.
        """
        parts = {}
        for name, part in (("options", self.options), ("contents", self.contents)):
            fields = {field: changes.pop(field) for field in [*changes] if field in part.__dataclass_fields__}
            parts[name] = dataclasses.replace(part, **fields)
        if unknown := set(changes) - {"inputs", "labels", "sample_weight"}:
            raise TypeError(f"Batches have neither an option nor a column {min(unknown)!r}. Received: {changes!r:.100}")
        return self._copy(**changes, **parts)

    def _copy(self, **attributes):
        other = copy.copy(self)
        vars(other).update(attributes, _planned=None)
        return other

    def apart(self, **changes: Any) -> Self:
        """Returns the same rows as `replace` does, but its epochs do not count as epochs of the others.

        Args:
            **changes: Changes as for `replace`.

        Returns:
            `Batches`.
        """
        return self.replace(**changes)._at_first()

    def pinned(self, chosen: Sequence | None = None) -> Self:
        """Returns batches that remain the same in all epochs, which do not count as epochs of the others.

        Args:
            chosen: List of `(length, rows)`. Defaults to `None`, for the batches of this epoch.

        Returns:
            `Batches`.
        """
        first, chosen = (self._position.first, self.planned()) if chosen is None else (0, chosen)
        return self._copy(chosen=chosen)._at_first(first)

    def only(self, index: int) -> Self:
        """Returns one of the planned batches as `Batches` of its own, which draw the same random numbers.

        Args:
            index: Integer. Position of the batch.

        Returns:
            `Batches`.
        """
        number = self.contents.number + index * self.options.shard[1]
        return self.pinned([self.planned()[index]]).replace(number=number)

    def _at_first(self, first=0):
        """Returns the same batches, which count their own epochs, of which this one begins with the batch `first`."""
        return self._copy(_position=dataclasses.replace(self._position, first=first, next=0, in_order=True))

    def grouped(self) -> Self:
        """Returns the same rows in batches of similar length, as in training.

        This needs less padding. Even unshuffled, the rows are not in their original order, which `restorer` restores.
        The batches of a `shard` or of `take` remain as they are, because other ones would have other rows.

        Returns:
            `Batches`.
        """
        is_whole = self.options.shard == (0, 1) and self.options.max_batches is None
        return self.replace(grouped=True) if is_whole else self

    def few_lengths(self) -> Self:
        """Returns the same rows in batches of at most six lengths, for a step that is compiled for each length.

        Returns:
            `Batches`.
        """
        width = self.inputs["padding_mask"].shape[-1] if "padding_mask" in self.inputs else 1
        if self.contents.real_labels is not None and not self.options.label_lengths:
            lengths, of_labels = choose_pairs(self.real, self.contents.real_labels, width, self.labels.shape[1])
            return self.replace(lengths=tuple(lengths), label_lengths=tuple(of_labels))
        if len(self.options.lengths) <= MAX_LENGTHS:
            return self
        return self.replace(lengths=tuple(choose_lengths(self.real, width)))

    def with_targets(self, make: Callable, seed: int | None = None) -> Self:
        """Returns the same rows as batches of the inputs and targets of an objective, other ones in each epoch.

        If the rows have labels, `make` gets the batch's labels as its third argument.

        The seed, the epoch and the number of a batch determine what the objective draws, so that a run can be resumed.

        Args:
            make: Function that returns an item, given the inputs of a batch and a `np.random.Generator`.
            seed: Integer. Seed of the objective, and of the order if these batches have no seed of their own. Defaults
                to `None`, the seed of these batches or a new one.

        Returns:
            `Batches`.

        Raises:
            ValueError: If the rows have weights.
        """
        rule = "Rows of which an objective makes targets have no weights, since each target would need one."
        expect(self.sample_weight is None, f"{rule} Leave `sample_weight` out.", sample_weight=self.sample_weight)
        if seed is None and self._position.seed is None:
            self._position.seed = np.random.randint(2**31)

        def item(columns, random):
            return make(columns[0], random) if columns[1] is None else make(columns[0], random, columns[1])

        return self.replace(prepare=item, makes_labels=True, seed=seed)

    @expects(index=integer(0), count=integer(1))
    def shard(self, index: int, count: int) -> Self:
        """Returns every `count`-th batch, for one of several processes that train together, each with its own part.

        The processes need the same rows, options and seed. Each batch equals a single process's batch, with the same
        targets of an objective. All shards have equally many batches; up to `count - 1` batches at the end of an epoch
        are left out.

        Args:
            index: Integer from 0 to `count - 1`. Number of the process.
            count: Integer. Number of processes, such as `jax.process_count()`.

        Returns:
            `Batches`.

        Raises:
            ValueError: If an argument is out of range, if the batches have no seed of their own, or if there are fewer
                than `count`.
        """
        expect(index < count, "`index` must be less than `count`.", index=index, count=count)
        expect(self.options.shard == (0, 1), "The batches must not be a shard already.", shard=self.options.shard)
        rule = "The processes need the same order of rows. Create the batches with a `seed`."
        expect(self._seeded, rule, seed=None)
        found = self.apart(shard=(index, count))
        rule = f"`count` must be at most the number of batches, {len(self)}."
        expect(len(found.planned()) > 0, rule, count=count)
        return found

    @expects(count=integer(1))
    def take(self, count: int) -> Self:
        """Returns batches whose epochs end after `count` of them, as of a corpus that is too large for one epoch.

        The next epoch has another order, and does not go on where the last one has ended. With `Corpus.streams`, which
        have one order, all epochs read the beginnings of the same texts, in the same windows or, with `lengths`, in
        other ones. With `shard`, before or after it, each shard has `count` batches of its own.

        Args:
            count: Integer, at least 1.

        Returns:
            `Batches`.
        """
        return self.replace(max_batches=count)

    # === A run ===

    @property
    def epoch(self) -> int:
        """Integer. Number of epochs that have ended. Can be set."""
        return self._position.epoch

    @epoch.setter
    def epoch(self, epoch):
        self._position.epoch = integer(0).check("epoch", epoch)

    @property
    def seed(self) -> int:
        """Integer. Seed of the order. Can be set."""
        return self._position.seed if self._seeded or self.contents.seed is None else self.contents.seed

    @seed.setter
    def seed(self, seed):
        self._position.seed = seed

    def on_epoch_begin(self):
        self._position.next, self._position.in_order = 0, True

    def on_epoch_end(self):
        self._position.epoch, self._position.first = self.epoch + 1, 0

    @expects(batch=integer(0))
    def seek(self, batch: int) -> None:
        """Begins this epoch, and no later one, with a batch, without reading those before it.

        Args:
            batch: Integer from 0 to the number of batches.
        """
        count = len(self) + self._position.first
        expect(batch <= count, f"`batch` must be at most {count}, the number of batches.", batch=batch)
        self._position.first = batch

    def state_dict(self) -> dict:
        """Returns the seed, the epoch, and the batch with which the epoch begins.

        The batch is missing if the batches are not read in order, because `fit` shuffles them again. Then a run cannot
        be resumed in the middle of an epoch.

        Returns:
            A dict.
        """
        state = {"seed": self._position.seed, "epoch": self.epoch}
        return {**state, "batch": self._position.first} if self._position.in_order else state

    def load_state_dict(self, state: Mapping) -> None:
        """Continues from the state of other batches with the same rows.

        Args:
            state: Dict from `state_dict`. This epoch then has only the batches from `state["batch"]` on.
        """
        self._position.seed, self.epoch, self._position.first = state["seed"], state["epoch"], state.get("batch", 0)

    def identity(self) -> dict:
        """Returns what determines the batches of an epoch, except for rows in memory and what `state_dict` returns.

        Returns:
            A dict of JSON values. Subclasses add what identifies their files, and how rows are made of them.
        """
        names = ("batch_size", "lengths", "label_lengths", "shuffle", "grouped", "drop_remainder", "max_batches")
        values = {name: getattr(self.options, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def digest(self) -> str:
        """Returns a digest of the inputs, labels and weights, without inputs in files, such as a corpus.

        Returns:
            String.
        """
        in_memory = [name for name, column in self.inputs.items() if isinstance(column, np.ndarray)]
        inputs = {name: self.inputs[name] for name in in_memory if not isinstance(self.inputs[name], np.memmap)}
        return data_digest([inputs, self.labels, self.sample_weight])

    # === Batches ===

    def planned(self) -> list:
        """Returns the batches of this epoch.

        Returns:
            A list of `(length, rows)`.
        """
        if self.chosen is not None:
            return self.chosen
        now = self._moment()
        if self._planned is None or self._planned[0] != now:
            found = self._plan(*now)
            numbers = self.options.part(len(found))
            self._planned = now, found if len(numbers) == len(found) else Part(found, numbers)
        return self._planned[1]

    def _moment(self):
        """Returns the seed and the epoch that determine the plan."""
        return self._random_state() if self.options.shuffle else (0, 0)

    def _random_state(self):
        """Returns the seed and the epoch of this epoch's random numbers, which are the same in all evaluations."""
        if not self.options.one_epoch:
            return self.seed, self.epoch
        return (self.seed if self._seeded else self.contents.seed) or 0, 0

    def _plan(self, seed, epoch):
        found = plan(self._needed(), self.options, seed, epoch)
        return put_apart(found, self.labels, self.real) if self.contents.parts_apart and self.options.shuffle else found

    def _needed(self):
        """Returns the length of the batches that each row fits into, of which its labels may require more."""
        if not self.options.label_lengths:
            return self.real
        pairs = np.searchsorted(self.options.label_lengths, self.contents.real_labels)
        return np.maximum(self.real, np.array(self.options.lengths)[pairs])

    def extremes(self) -> list:
        """Returns two batches that differ in each axis whose size varies.

        Returns:
            A list of two `(length, rows)`.
        """
        lengths, last = self.options.lengths, len(self.real) - 1
        short, long = 0, last
        if (of_labels := self.contents.real_labels) is not None:
            short, long = int(np.argmin(of_labels)), int(np.argmax(of_labels))
        return [(lengths[0], [short]), (lengths[-1], [long, last])]

    @property
    def has_labels(self):
        """Boolean. Whether the items contain labels."""
        return self.labels is not None or self.contents.makes_labels

    @property
    def kind(self):
        """String. What a row of inputs is, or `None` if it is unknown."""
        return self.contents.layout.kind

    @property
    def reshuffled(self):
        """Boolean. Whether each epoch has a different order."""
        return self.options.shuffle

    @property
    def one_epoch(self):
        """Boolean. Whether every epoch is read as the first one, as for evaluation."""
        return self.options.one_epoch

    @property
    def order(self) -> np.ndarray:
        """Integer array. The row in each row of all batches, in order."""
        return np.concatenate([rows for _, rows in self.planned()])

    def __len__(self):
        return len(self.planned()) - self._position.first

    def __getitem__(self, index):
        item, share = self._item(index), self.options.share
        if self.options.filled:
            item = fill_up(item, self.options.replicas)
        if self.options.repeat == "few":
            item = repeat_rows(item, self.options.rows_of(len(next(iter(item[0].values())))))
        if share == ALL:
            return item
        return keras.tree.map_structure(lambda column: column[share.rows(len(column))], item)

    def _item(self, index):
        """Returns a batch with all of its rows."""
        now, of_labels = self._position, self.contents.real_labels
        now.in_order, now.next = now.in_order and index == now.next, index + 1
        index += now.first
        length, rows = self.planned()[index]
        inputs, labels = self.read(rows, length), self.read_labels(rows, length)
        weights = _rows_of(self.sample_weight, rows, length, self.contents.per_token)
        if labels is not None and of_labels is not None:
            few = self.options.label_lengths
            labels = labels[:, : few[self.options.lengths.index(length)] if few else of_labels[rows].max()]
        if self.contents.prepare is None:
            return (inputs, *(column for column in (labels, weights) if column is not None))
        first, count = self.options.shard
        number = self.contents.number + first + index * count  # Shards count their batches together.
        seed = 0 if self.options.one_epoch else self._position.seed or 0
        seed = seed if self.contents.seed is None else self.contents.seed
        random = np.random.default_rng([seed, self._random_state()[1], number])
        return self.contents.prepare((inputs, labels, weights), random)

    def read(self, rows: Any, length: int) -> dict:
        """Returns the inputs of some rows.

        Args:
            rows: List of integers.
            length: Integer. Number of ids of each row that are read.

        Returns:
            A dict of arrays.
        """
        part = (rows, slice(None), slice(length)) if self.contents.layout.in_parts else (rows, slice(length))
        return {key: _take(column, rows, part) for key, column in self.inputs.items()}

    def read_labels(self, rows: Any, length: int | None = None) -> Any:
        """Returns the labels of some rows.

        Args:
            rows: List of integers.
            length: Integer. Number of labels of each row that are read, if its tokens have labels. Defaults to `None`,
                for all of them.

        Returns:
            An array, a dict of arrays, or `None`.
        """
        return _rows_of(self.labels, rows, length, self.contents.per_token)

    @property
    def spec(self):
        """Structure of the `tf.TensorSpec`s of a batch. An axis varies if it differs between two lengths."""
        ends = self.pinned(self.extremes())
        rows = self.options.batch_size if self.options.drop_remainder else None

        def spec(one, other):
            shape = [size if size == same else None for size, same in zip(one.shape[1:], other.shape[1:])]
            return tf.TensorSpec([rows, *shape], one.dtype)

        return tf.nest.map_structure(spec, ends[0], ends[1])

    def for_keras(self, may_end_early=False):
        # Without the spec of a pipeline, Keras would infer which axes vary from the first two batches, trace a step
        # again if it is wrong, and let TensorFlow tune the pipeline. At the end of each epoch, TensorFlow would wait
        # for the thread that tunes it, which sleeps for up to a minute.
        if keras.backend.backend() != "tensorflow":
            return self
        return read_ahead(_by_index(self, may_end_early), self)

    def restorer(self) -> Callable:
        """Returns a function that puts the outputs of `predict` for these batches into the order of the rows.

        Call `restorer` before `predict`, because the next epoch has another order.

        Returns:
            A function of the outputs of `predict`, which it reorders.
        """
        first = np.unique(self.order, return_index=True)[1]  # A row may be repeated to fill a batch.
        return lambda outputs: keras.tree.map_structure(lambda output: np.asarray(output)[first], outputs)


def _rows_of(columns, rows, length=None, per_token=False):
    """Returns some rows of columns. Those of tokens have the length, also stored outputs among columns of rows."""

    def read(column):
        return column[rows, slice(length)] if getattr(column, "has_tokens", per_token) else column[rows]

    return None if columns is None else keras.tree.map_structure(read, columns)


def _take(column, rows, part):
    if column.ndim > 1 and column.dtype != object:
        return column[part[: column.ndim]]
    # Keras cannot convert NumPy's object arrays of strings.
    return tf.constant(column[rows])


# === Pipelines of TensorFlow ===


def read_ahead(dataset, made_from):
    """Returns a `tf.data.Dataset` that prepares two batches ahead and knows the data that it was made from."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    found = dataset.prefetch(2).with_options(options)
    found.made_from = made_from
    return found


def _by_index(data, may_end_early):
    """Returns a `tf.data.Dataset` that reads batches by their index. `from_generator` takes three times as long.

    It follows the epoch of the batches, which the `Progress` of a run counts: Keras starts it more often than once per
    epoch.
    """
    spec, epoch, count = data.spec, {}, len(data.planned())
    leaves = tf.nest.flatten(spec)
    may_end_early = may_end_early or len(data) < count

    def begin():
        epoch["batches"] = data.pinned()

    def is_there(index):
        if index == 0:
            begin()
        return np.bool_(index < len(epoch["batches"]))

    def read(index):
        if index == 0 and not may_end_early:
            begin()
        return tf.nest.flatten(epoch["batches"][index])

    def check(index):
        return tf.ensure_shape(tf.numpy_function(is_there, [index], tf.bool), [])

    def batch(index):
        arrays = tf.numpy_function(read, [index], [leaf.dtype for leaf in leaves])
        shaped = [tf.ensure_shape(array, leaf.shape) for array, leaf in zip(arrays, leaves)]
        return tf.nest.pack_sequence_as(spec, shaped)

    check, batch = map(tf.autograph.experimental.do_not_convert, (check, batch))
    indices = tf.data.Dataset.range(count)
    return of_at_most(indices.take_while(check).map(batch), count) if may_end_early else indices.map(batch)


def of_at_most(dataset, count):
    """Returns a `tf.data.Dataset` whose length is said to be `count`, but which may end earlier."""
    # `assert_cardinality` would raise an error at an early end. To TensorFlow, this choice is infinite, so `take` gives
    # it the length `count`. In fact, it ends when the dataset does.
    always_first = tf.data.Dataset.from_tensors(np.int64(0)).repeat()
    either = tf.data.Dataset.choose_from_datasets([dataset, dataset.repeat()], always_first, stop_on_empty_dataset=True)
    return either.take(count)
