"""Batches of arrays in order, with a position, for runs that resume in the middle of an epoch."""

import keras

from keras_transfer.callbacks import TrainingCheckpoint


class Rows(keras.utils.PyDataset):
    """Batches of arrays in order. The first epoch can begin with a later batch."""

    first = 0

    def __init__(self, x, y, batch_size=4):
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self):
        return -(-len(self.x) // self.batch_size) - self.first

    def __getitem__(self, index):
        rows = slice((self.first + index) * self.batch_size, (self.first + index + 1) * self.batch_size)
        return self.x[rows], self.y[rows]

    def on_epoch_end(self):
        self.first = 0

    def state_dict(self):
        return {"batch": self.first}

    def load_state_dict(self, state):
        self.first = state["batch"]


def tell(callbacks, data):
    """Tells the `TrainingCheckpoint`s of a run its data and other callbacks, as `fit` of a task does."""
    for callback in callbacks:
        if isinstance(callback, TrainingCheckpoint):
            callback.data = data if hasattr(data, "state_dict") else None
            callback.callbacks = [other for other in callbacks if other is not callback]
