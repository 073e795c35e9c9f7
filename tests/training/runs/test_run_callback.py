"""`callbacks.RunCallback`: a callback of a user's own restores what it changed, also when `fit` fails."""

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import RunCallback
from tests.tasks.tiny import of_vectors


class HalfRate(RunCallback):
    rate, seen = None, ()

    def on_train_begin(self, logs=None):
        self.rate = float(self.model.optimizer.learning_rate)
        self.model.optimizer.learning_rate = self.rate / 2

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch)
        self.seen = (*self.seen, (self.progress.count, float(self.model.optimizer.learning_rate)))

    def close(self):
        self.model.optimizer.learning_rate = self.rate


class Fails(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise RuntimeError("stop")


@pytest.mark.core
@pytest.mark.parametrize("further", [[], [Fails()]], ids=["ends", "fails"])
def test_what_a_callback_of_a_task_changed_is_restored_when_fit_ends_or_fails(further):
    model, callback = of_vectors(), HalfRate()
    model.compile(keras.optimizers.SGD(0.5))
    data = {"x": ["good", "bad", "a", "b"], "y": [0, 1, 0, 1], "batch_size": 2, "verbose": 0}
    if further:
        with pytest.raises(RuntimeError, match="stop"):
            model.fit(**data, callbacks=[callback, *further])
    else:
        model.fit(**data, callbacks=[callback])
    assert callback.seen == ((1, 0.25), (2, 0.25))
    assert float(model.optimizer.learning_rate) == 0.5


def test_in_another_model_it_is_a_context_manager():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    with pytest.raises(RuntimeError, match="stop"), HalfRate() as callback:
        model.fit(np.ones((4, 2)), np.ones(4), batch_size=2, callbacks=[callback, Fails()], verbose=0)
    assert callback.seen == ((1, 0.25), (2, 0.25))
    assert float(model.optimizer.learning_rate) == 0.5
