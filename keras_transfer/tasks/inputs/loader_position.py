"""Where a loader is whose state can be stored, so that a run resumes at the same batch."""

import copy
import threading

import keras


def position_of(loader, iterator, has_length, num_batches):
    """Returns the `LoaderPosition` of a loader, or None if neither it nor its iterators have a state.

    Args:
        loader: Iterable of batches.
        iterator: One of its iterators.
        has_length, num_batches: See `LoaderPosition`.
    """
    with_iterator = all(callable(getattr(iterator, name, None)) for name in ("get_state", "set_state"))
    with_loader = all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))
    return LoaderPosition(loader, with_iterator, has_length, num_batches) if with_iterator or with_loader else None


def check_apart(position, other):
    """Raises a `ValueError` if the training and the validation data change the state of the same loader.

    Args:
        position, other: `LoaderPosition`s of the training and the validation data, or None.
    """
    if None not in (position, other) and position.loader is other.loader and not position.by_iterator:
        raise ValueError(
            "A run with `TrainingCheckpoint` cannot train and validate on the same loader with a state, because each "
            "validation changes this state. Create another loader for `validation_data`. "
            f"Received: the same {type(position.loader).__name__} twice"
        )


class LoaderPosition:
    """Where a loader is: after which batch of which state. Batches are read ahead, so that states are kept until then.

    Args:
        loader: Iterable of batches. Either its iterators have `get_state` and `set_state`, as Grain's, or it has
            `state_dict` and `load_state_dict`, as torchdata's `StatefulDataLoader`.
        by_iterator: Boolean. Which of the two.
        has_length: Boolean. Whether Keras knows the length of an epoch. Otherwise, a run cannot resume within one,
            because Keras would take the rest of this epoch for a whole one.
        num_batches: Integer. The length of the loader, or None if it is endless or unknown.

    Attributes:
        began: Integer. The number of batches before the first one of the reading that began last.
    """

    def __init__(self, loader, by_iterator, has_length, num_batches):
        self.loader, self.by_iterator, self.has_length, self.num_batches = loader, by_iterator, has_length, num_batches
        self.began = self._base = self._done = 0
        self._lock = threading.Lock()
        self._over, self._end, self._loaded, self._states = True, None, None, {}

    def read(self):
        """Yields batches from the loaded position on, or from where a loader without end is, or from the beginning."""
        if self._loaded is not None:
            (number, state), self._loaded = self._loaded, None
        elif self._done and not self._over:
            number, state = self._done, self._states[self._done]
        else:
            number, state = 0, None
        states = {number: state}
        with self._lock:
            if state is not None and not self.by_iterator:
                self.loader.load_state_dict(copy.deepcopy(state))  # It may change what it was given.
            iterator = iter(self.loader)
            if state is not None and self.by_iterator:
                iterator.set_state(copy.deepcopy(state))
            self.began = self._base = self._done = number
            self._over, self._states = False, states
        while True:
            with self._lock:
                if self._states is not states:  # Another reading has begun, and nobody waits for this one.
                    return
                if (batch := next(iterator, self)) is self:
                    self._end = None if self.by_iterator else copy.deepcopy(self.loader.state_dict())
                    self._over = True
                    return
                number += 1
                found = iterator.get_state() if self.by_iterator else self.loader.state_dict()
                states[number] = copy.deepcopy(found)  # It may be what the loader changes with the next batch.
            yield batch

    def trained(self, batch):
        """Takes note that `batch` of this epoch, counted from 0, was trained on."""
        self._done = self._base + batch + 1
        states = self._states
        for number in [number for number in [*states] if number < self._done]:
            del states[number]

    def end_epoch(self):
        """Takes note that an epoch has ended, which the loader may outlast."""
        self._base = self._done

    def restart(self):
        """Begins a run, which reads from the beginning unless a position was loaded."""
        self._base = self._done = 0
        self._over, self._states = True, {}

    def state_dict(self):
        """Returns the position of what was trained on, as a dict. Without `"batch"`, it is that between two epochs."""
        if self._loaded is not None:
            number, state = self._loaded
        elif self._over and self._done == max(self._states, default=0):  # The loader was read to its end.
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
    """Tells a `LoaderPosition` what was trained on."""

    def __init__(self, position):
        super().__init__()
        self.position = position

    def on_train_begin(self, logs=None):
        self.position.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.position.trained(batch)

    def on_epoch_end(self, epoch, logs=None):
        self.position.end_epoch()
