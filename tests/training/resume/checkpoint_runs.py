"""Shared by the tests of `TrainingCheckpoint`: a small model, a run of it, and runs that end early."""

import functools
import os
import signal

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import get_recipe
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.helpers import EAGER, with_slots
from tests.training.rows import Rows, tell

numbers = np.random.default_rng(0)
X = numbers.normal(size=(40, 4)).astype("float32")
Y = numbers.integers(0, 3, 40)
BATCHES = 10  # of four
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def build(optimizer=None, hidden=8, policy=None, **compiled):
    """A small model with dropout and three groups, the same each time."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(hidden, activation="relu", dtype=policy),
        keras.layers.Dropout(0.2, dtype=policy),
        keras.layers.Dense(hidden, activation="relu", dtype=policy),
        keras.layers.Dense(3, dtype=policy),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    optimizer = keras.optimizers.Adam(1e-2) if optimizer is None else optimizer(model)
    model.compile(optimizer, LOSS, **compiled)
    return with_slots(model)


def linear(optimizer=None):
    """A linear model whose steps cost little, for tests of what surrounds them."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), LOSS, run_eagerly=EAGER)
    return with_slots(model)


def fit(model, *callbacks, epochs=3, data=(X, Y), shuffle=False, **options):
    """Trains on batches of four of these arrays, or on a dataset. Its training checkpoints know all about the run."""
    data = Rows(*data) if isinstance(data, tuple) else data
    tell(callbacks, data)
    for callback in callbacks:
        if isinstance(callback, Crash):
            callback.data = data
    return model.fit(data, epochs=epochs, verbose=0, shuffle=shuffle, callbacks=list(callbacks), **options).history


class Crash(keras.callbacks.Callback):
    """Ends a run with an error, or does something else, after a step of the run; the first is 1."""

    def __init__(self, step, action=None):
        super().__init__()
        self.step, self.action, self.data = step, action, None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch * BATCHES + getattr(self.data, "first", 0) + batch + 1 == self.step:
            if self.action is None:
                raise KeyError("crash")
            self.action(self.model)


def crash(folder, step, save_every=3, make=build, callbacks=(), **options):
    """A run with checkpoints that ends with an error after a step."""
    with pytest.raises(KeyError, match="crash"), TrainingCheckpoint(folder, save_every=save_every) as checkpoint:
        fit(make(), *callbacks, checkpoint, Crash(step), **options)


def term(model):
    os.kill(os.getpid(), signal.SIGTERM)


def state(model):
    return [keras.ops.convert_to_numpy(v).copy() for v in (*model.variables, *model.optimizer.variables)]


def assert_same(model, expected):
    ours, theirs = state(model), state(expected) if isinstance(expected, keras.Model) else expected
    assert len(ours) == len(theirs) > 5
    assert [i for i, (a, b) in enumerate(zip(ours, theirs)) if not np.array_equal(a, b)] == []


OPTIMIZERS = {
    "adam": lambda model: keras.optimizers.Adam(1e-2),
    "a schedule": lambda model: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 30), momentum=0.9),
    "moving averages": lambda model: keras.optimizers.Adam(1e-2, use_ema=True, ema_momentum=0.9),
    "accumulated gradients": lambda model: keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2),
    "a recipe that accumulates gradients": lambda model: get_recipe(
        "bert", learning_rate=1e-2, gradient_accumulation_steps=2
    ).build_optimizer(model, 30),
    "a scaled loss": lambda model: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), 64.0, 5),
    "rates by group": lambda model: LayerwiseOptimizer(keras.optimizers.AdamW(1e-2), model, decay=0.5),
}


@functools.cache
def whole():
    """The final state of an uninterrupted run of `build()`."""
    model = build()
    fit(model)
    return state(model)


def names(folder):
    """The files in a folder. A lock stays as long as the process of a run that ended with an error."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")
