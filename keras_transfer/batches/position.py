"""Where batches are in a run: their seed, their epoch, and the batch with which it begins."""

import copy

import keras

from keras_transfer.integers import check_integer


class Position:
    """Where batches are, which all copies of them share.

    Attributes:
        seed, epoch: The seed and the number of the epoch.
        first: Integer. The batch with which the rest of a resumed epoch begins.
        next: Integer. The batch that is read next, if they are read in order.
        in_order: Boolean. Whether the batches of this epoch are read in order.
    """

    def __init__(self, seed, epoch=0):
        self.seed, self.epoch, self.first = seed, epoch, 0
        self.begin()

    def begin(self):
        """Begins to read an epoch."""
        self.next, self.in_order = 0, True

    def batch(self, index):
        """Returns the number of the batch that is read as the item `index` of this epoch."""
        self.in_order, self.next = self.in_order and index == self.next, index + 1
        return self.first + index

    def apart(self, first=0):
        """Returns the position of batches that count their own epochs, of which this one begins with batch `first`."""
        found = copy.copy(self)
        found.first = first
        found.begin()
        return found


class Positioned(keras.utils.PyDataset):
    """A dataset that a run can leave and resume, also in the middle of an epoch.

    Args:
        seed: Integer, or None.

    Attributes:
        epoch: Integer. Number of epochs that have ended. Can be set.
        seed: Integer. Can be set.
    """

    def __init__(self, seed):
        super().__init__()
        self._position = Position(seed)

    @property
    def epoch(self):
        return self._position.epoch

    @epoch.setter
    def epoch(self, epoch):
        self._position.epoch = check_integer("epoch", epoch, 0)

    @property
    def seed(self):
        return self._position.seed

    @seed.setter
    def seed(self, seed):
        self._position.seed = seed

    def on_epoch_begin(self):
        self._position.begin()

    def on_epoch_end(self):
        self._position.epoch += 1
        self._position.first = 0

    def seek(self, batch):
        """Begins this epoch, and no later one, with a batch, without reading those before it.

        Args:
            batch: Integer from 0 to the number of batches.
        """
        batch, count = check_integer("batch", batch, 0), len(self) + self._position.first
        if batch > count:
            raise ValueError(f"`batch` must be at most {count}, the number of batches. Received: batch={batch}")
        self._position.first = batch

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
