"""The position in a loader with a state that can be stored, so that a run resumes at the same batch."""

import copy
import threading

import keras


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
        self.began = self._base = self._done = 0
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
            self.began = self._base = self._done = number
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

    def trained(self, batch):
        """Records that `batch` of this epoch, counted from 0, was trained on."""
        self._done = self._base + batch + 1
        states = self._states
        for number in [number for number in [*states] if number < self._done]:
            del states[number]

    def end_epoch(self):
        """Records that an epoch has ended, which may happen before the loader ends."""
        self._base = self._done

    def restart(self):
        """Begins a run, which starts at the first batch unless a position was loaded."""
        self._base = self._done = 0
        self._over, self._states = True, {}

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


class CountBatches(keras.callbacks.Callback):
    """Reports each trained batch to a `LoaderPosition`."""

    def __init__(self, position):
        super().__init__()
        self.position = position

    def on_train_begin(self, logs=None):
        self.position.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.position.trained(batch)

    def on_epoch_end(self, epoch, logs=None):
        self.position.end_epoch()
