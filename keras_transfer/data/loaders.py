"""A `tf.data.Dataset`, a generator or a loader as the data of a task: a sequence of small `Batches`."""

import copy
import itertools
import threading

import keras

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf
from keras_transfer.data.batching import of_at_most, read_ahead
from keras_transfer.data.source import Source

_ENDLESS = 2**40  # Grain's endless datasets report a length of about 2**63 batches.


def is_tf_dataset(x):
    """Returns whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return type(x).__module__.startswith("tensorflow.") and hasattr(x, "element_spec") and hasattr(x, "map")


class Stream(Source):
    """The batches of a loader, each of which becomes an item in the same way as data in memory.

    The seed, the epoch and the number of a batch determine what an objective draws for it. The epoch is that of `fit`,
    or otherwise the number of earlier readings.

    Args:
        loader: `tf.data.Dataset`, generator, or other iterable of batches.
        prepare: Function that returns `Batches` with one batch, given a batch of the loader, the epoch and the number
            of batches before it.
        epoch: Integer. The epoch of the first reading.
        one_epoch: Boolean. Whether all readings draw what the first epoch draws, as for evaluation.
        is_static: Boolean. Whether the inputs have the same shape in all batches.

    Attributes:
        first: `Batches` of the first batch.
        epoch: Integer. The epoch of the next reading, which the `Progress` of a run sets.
        first_epoch: Integer. The epoch of the first reading, at which a run begins.
        spec: Structure of the `tf.TensorSpec`s of an item.
    """

    def __init__(self, loader, prepare, *, epoch=0, one_epoch=False, is_static=False):
        self.loader, self.prepare, self.one_epoch = loader, prepare, one_epoch
        self.epoch, self.first_epoch = 0 if one_epoch else epoch, epoch
        batches, self._length = iter(loader), _length_of(loader)
        self.count = None if self._length is None or self._length > _ENDLESS else self._length
        self.position = position_of(loader, batches, self._length is not None, self.count)
        if (first := next(batches, batches)) is batches:
            name = "a `tf.data.Dataset`" if is_tf_dataset(loader) else type(loader).__name__
            raise ValueError(f"`x` must have at least one batch. Received: {name} without any")
        self._unread = [first] if batches is loader else []  # A generator does not yield a batch again.
        self.first = prepare(first, self.epoch, 0)
        self.kind, self.has_labels = self.first.kind, self.first.has_labels
        item, is_plain = self.first[0], self.first.contents.prepare is None
        self._example, self._form = first, _form_of(item)
        self.spec = _spec_of(item, self.kind == "parts", is_static and is_plain, loader if is_plain else None)
        if self.count is not None and self.count < 2:
            self._check_count(self.count == 1 and next(batches, batches) is batches, "more")

    @property
    def is_read_once(self):
        """Boolean. Whether the loader does not yield its first batch again, as a generator does."""
        return bool(self._unread)

    def whole(self):
        """Returns the loader, or a generator of the batches that are not read yet if it yields each of them once."""
        if not self._unread:
            return self.loader
        unread, self._unread = self._unread, []
        return (batch for batch in itertools.chain(unread, self.loader))

    def for_user(self):
        return self.for_keras()

    def for_keras(self, may_end_early=False):
        """Returns a `tf.data.Dataset` of the items, which begins a new epoch whenever it is iterated over."""
        found = tf.data.Dataset.from_generator(self.items, output_signature=self.spec)
        if self.count is not None and self.position is None:
            found = found.apply(tf.data.experimental.assert_cardinality(self.count))
        elif self._length is not None:  # A resumed epoch has fewer batches, so the cardinality is only an upper bound.
            found = of_at_most(found, self._length)
        return read_ahead(found, self)

    def items(self):
        """Yields the items of the next epoch."""
        epoch = self.epoch
        self.epoch += not self.one_epoch
        try:
            yield from self._checked(epoch)
        except GeneratorExit:  # TensorFlow stops the iteration early.
            raise
        except BaseException as error:
            self.error = error
            raise

    def _checked(self, epoch):
        """Yields the items of an epoch, or raises a `ValueError`."""
        unread, self._unread = self._unread, []
        rest = iter(self.loader) if self.position is None else self.position.read()
        number = None
        for batch in itertools.chain(unread, rest):  # `yield from` would close a generator of the user.
            if number is None:
                number = 0 if self.position is None else self.position.began
            item = self.prepare(batch, epoch, number)[0]
            rule = "All batches of a loader must have the same form."
            expect(_form_of(item) == self._form, rule, batch=batch, after=self._example)
            number += 1
            if number == self.count:  # Keras would silently ignore further batches.
                self._check_count(next(rest, rest) is rest, "more")
            yield item
        self._check_count(self.count in (None, number or 0), number or 0)

    def _check_count(self, is_right, found):
        expect(is_right, f"A loader must have as many batches as its `len()` returns, {self.count}.", batches=found)


def _length_of(loader):
    """Returns the number of batches that a loader reports, or `None`."""
    if is_tf_dataset(loader):
        count = int(loader.cardinality())
        return count if count >= 0 else None
    try:
        return len(loader)
    except TypeError:  # torch's `DataLoader` of an `IterableDataset` has `__len__`, but raises this error.
        return None


def _form_of(item):
    arrays = keras.tree.flatten_with_path(item)
    return [(path, array.ndim, getattr(array.dtype, "kind", array.dtype)) for path, array in arrays]


def _spec_of(item, in_parts, is_static, loader):
    """Returns the `tf.TensorSpec`s of an item, with the sizes of its axes that are the same in all items.

    These are those that a `tf.data.Dataset` declares for what it contains, or with `is_static` all of them.
    """
    declared = loader.element_spec if is_tf_dataset(loader) else ()
    declared = declared if isinstance(declared, tuple) else (declared,)

    def spec(array, of_loader):
        sizes = [None] * array.ndim
        if isinstance(of_loader, tf.TensorSpec) and of_loader.shape.rank == array.ndim:
            sizes = [size if size == own else None for size, own in zip(of_loader.shape, array.shape)]
        if in_parts and array.ndim > 2:  # There are equally many texts in each row, and a loss must know how many.
            sizes[1] = array.shape[1]
        is_text = tf.is_tensor(array) or array.dtype == object
        return tf.TensorSpec(array.shape if is_static else sizes, tf.string if is_text else array.dtype)

    found = []
    for place, part in enumerate(item):
        arrays = tf.nest.flatten(part)
        specs = tf.nest.flatten(declared[place]) if place < len(declared) else []
        specs = specs if len(specs) == len(arrays) else [None] * len(arrays)
        found.append(tf.nest.pack_sequence_as(part, list(map(spec, arrays, specs))))
    return tuple(found)


def position_of(loader, iterator, has_length, num_batches):
    """Returns the `LoaderPosition` of a loader, or `None` if neither it nor its iterators have a state."""
    with_iterator = all(callable(getattr(iterator, name, None)) for name in ("get_state", "set_state"))
    with_loader = all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))
    return LoaderPosition(loader, with_iterator, has_length, num_batches) if with_iterator or with_loader else None


def check_apart(position, other):
    """Raises a `ValueError` if the positions of the training and the validation data are in the same loader."""
    if None not in (position, other) and position.loader is other.loader and not position.by_iterator:
        raise ValueError(
            "A run with `TrainingCheckpoint` cannot train and validate on the same loader with a state, because each "
            "validation changes this state. Create another loader for `validation_data`. "
            f"Received: the same {type(position.loader).__name__} twice"
        )


class LoaderPosition:
    """The position in a loader: the number of batches that were trained on, and the state after them.

    Batches are prefetched, so the states of all batches since then are kept.

    Args:
        loader: Iterable of batches. Either its iterators have `get_state` and `set_state`, as in Grain, or it has
            `state_dict` and `load_state_dict`, as torchdata's `StatefulDataLoader` does.
        by_iterator: Boolean. Whether the iterators have the state.
        has_length: Boolean. Whether Keras knows the length of an epoch. Otherwise, a run cannot resume within one,
            because Keras would treat the rest of this epoch as a whole one.
        num_batches: Integer. The length of the loader, or `None` if it is endless or unknown.

    Attributes:
        began: Integer. The number of batches before the first one of the latest iteration.
    """

    def __init__(self, loader, by_iterator, has_length, num_batches):
        self.loader, self.by_iterator, self.has_length, self.num_batches = loader, by_iterator, has_length, num_batches
        self.began = self._done = 0
        self._lock = threading.Lock()
        self._over, self._end, self._loaded, self._states = True, None, None, {}

    def read(self):
        """Yields batches from the loaded position, the current position of an endless loader, or the start."""
        if self._loaded is not None:
            (number, state), self._loaded = self._loaded, None
        elif self._done and not self._over:
            number, state = self._done, self._states[self._done]
        else:
            number, state = 0, None
        states = {number: state}
        with self._lock:
            if state is not None and not self.by_iterator:
                self.loader.load_state_dict(copy.deepcopy(state))  # The loader may modify its argument.
            iterator = iter(self.loader)
            if state is not None and self.by_iterator:
                iterator.set_state(copy.deepcopy(state))
            self.began = self._done = number
            self._over, self._states = False, states
        while True:
            with self._lock:
                if self._states is not states:  # A newer iteration has begun, so nobody uses this one any more.
                    return
                if (batch := next(iterator, self)) is self:
                    self._end = None if self.by_iterator else copy.deepcopy(self.loader.state_dict())
                    self._over = True
                    return
                number += 1
                found = iterator.get_state() if self.by_iterator else self.loader.state_dict()
                states[number] = copy.deepcopy(found)  # The loader may modify this object with the next batch.
            yield batch

    def trained(self, count):
        """Records that so many further batches were trained on."""
        self._done += count
        states = self._states
        for number in [number for number in [*states] if number < self._done]:
            del states[number]

    def restart(self):
        """Begins a run, which starts at the first batch unless a position was loaded."""
        self._done, self._over, self._states = 0, True, {}

    def state_dict(self):
        """Returns the position after the last trained batch, as a dict. Between two epochs, it has no `"batch"`."""
        if self._loaded is not None:
            number, state = self._loaded
        elif self._over and self._done == max(self._states, default=0):  # The loader has ended.
            number, state = 0, self._end
        else:
            number, state = self._done, self._states[self._done]
        return {**({"batch": number} if self.has_length else {}), "after": number, "loader": state}

    def state_in_epoch(self):
        """Returns the position within an epoch, as a dict."""
        return {"batch": self._done, "after": self._done, "loader": self._states[self._done]}

    def load_state_dict(self, state):
        """Moves to a position that `state_dict` returned, or to the beginning if its `"batch"` was set to 0."""
        is_same = state.get("batch", state["after"]) == state["after"]
        self._loaded = (state["after"], state["loader"]) if is_same else (0, None)
