"""Where batches are in a run: their seed, their epoch, and the batch with which it begins."""

import copy

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
        self.seed = None if seed is None else check_integer("seed", seed, 0)
        self.epoch, self.first = epoch, 0
        self.begin()

    def begin(self):
        """Begins to read an epoch."""
        self.next, self.in_order = 0, True

    def end(self):
        """Ends an epoch."""
        self.epoch, self.first = self.epoch + 1, 0

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

    def state_dict(self):
        """Returns the position as a dict, without the batch if the batches of this epoch are not read in order."""
        state = {"seed": self.seed, "epoch": self.epoch}
        return {**state, "batch": self.first} if self.in_order else state

    def load_state_dict(self, state):
        """Moves to a position that `state_dict` returned."""
        self.seed, self.epoch = state["seed"], check_integer("epoch", state["epoch"], 0)
        self.first = state.get("batch", 0)
