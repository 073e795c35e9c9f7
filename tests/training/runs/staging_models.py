"""Shared by the tests of freezing and staged training: a model, a loop in numpy to compare with, and a recorder."""

import keras
import numpy as np
from keras import ops

from keras_transfer import adaptation
from keras_transfer.callbacks import StagedTraining, TrainingCheckpoint
from keras_transfer.training.progress import sync
from tests.helpers import EAGER
from tests.training.rows import Rows, tell

NAMES = ["low", "mid", "top", "head"]
STEPS = 4  # an epoch
X = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
Y = np.random.default_rng(1).normal(size=(16, 2)).astype("float32")


class Restarting(StagedTraining):
    """Stages after the first of which the optimizer begins again, as those of linear probing and fine-tuning."""

    restarts = True


def make(optimizer=None, **compiled):
    """A compiled model of four dense layers, the same each time. `run_eagerly=False` traces its steps on TensorFlow."""
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((3,))
    for name in NAMES[:-1]:
        x = keras.layers.Dense(3, activation="tanh", bias_initializer="normal", name=name)(x)
    model = keras.Model(inputs, keras.layers.Dense(2, bias_initializer="normal", name="head")(x))
    optimizer = optimizer or keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizer, "mse", **{"run_eagerly": EAGER, **compiled})
    return model


def fit(model, *callbacks, epochs=4, x=X, batch_size=4, **options):
    """Trains on batches, in order."""
    options = {"epochs": epochs, "shuffle": False, "verbose": 0, **options}
    data = {"x": x, "y": Y, "batch_size": batch_size}
    if any(isinstance(callback, TrainingCheckpoint) for callback in callbacks):
        data = {"x": Rows(x, Y, batch_size)}
        tell(callbacks, data["x"])
    return model.fit(**data, callbacks=list(callbacks), **options)


def values(model):
    """dict from paths to values of all weights."""
    return {weight.path: np.array(ops.convert_to_numpy(weight)) for weight in model.weights}


def changed(before, after):
    """The paths of the weights that are not bit-identical."""
    return {path for path, value in before.items() if (value != after[path]).any()}


def trained_in(model, run):
    """The names of the layers that `run` trained, after a check that all weights of each changed."""
    before = values(model)
    run()
    paths = changed(before, values(model))
    names = {path.split("/")[0] for path in paths}
    assert paths == {path for path in before if path.split("/")[0] in names}
    return names


def difference(ours, theirs):
    return max(np.abs(ours[path] - theirs[path]).max() for path in ours)


class Watch(keras.callbacks.Callback):
    """Records the weights that each step changed, by even a bit."""

    def on_train_begin(self, logs=None):
        self.steps, self.values = [], values(self.model)

    def on_train_batch_end(self, batch, logs=None):
        sync(self.model)
        now = values(self.model)
        self.steps.append(changed(self.values, now))
        self.values = now


def moved_in(watch):
    """The names of the layers that each step trained, after a check that all weights of each changed."""
    for paths in watch.steps:
        names = {path.split("/")[0] for path in paths}
        assert paths == {path for path in watch.values if path.split("/")[0] in names}
    return [{path.split("/")[0] for path in paths} for paths in watch.steps]


def assert_follows(model, callback, watch, first=0, may_rest=()):
    """Asserts that each step changed only the weights of its stage, or without a callback all trainable weights.

    Args:
        model: the model, after `fit`.
        callback: `Staging` or None.
        watch: `Watch`.
        first: int, the step of the whole run that was the first of this `fit`.
        may_rest: collection of paths of weights whose gradient is only rounding error.
    """
    assert watch.steps
    groups = {group.name: [v.path for v in group.variables] for group in adaptation.layer_groups(model)}
    schedule = [(0, list(groups))] if callback is None else callback.schedule
    could = {weight.path for weight in model.trainable_weights}
    for step, paths in enumerate(watch.steps, first):
        names = [names for start, names in schedule if start <= step][-1]
        expected = could & {path for name in names for path in groups[name]}
        assert expected - set(may_rest) <= paths <= expected, step


def reference(model, trains, optimizer, batches=None, each_its_own_steps=False):
    """The weights after training in numpy. `trains(step)` names the layers that each step trains.

    Args:
        optimizer: `("sgd", rate, momentum)` or `("adam", rate)`, where rate is a function of the step.
        each_its_own_steps: bool, whether Adam counts the steps of each layer separately.
    """
    weights = {path: value.astype("float64") for path, value in values(model).items()}
    slots = {path: [np.zeros_like(value), np.zeros_like(value)] for path, value in weights.items()}
    count = dict.fromkeys(NAMES, 0)
    for step in range(4 * STEPS if batches is None else batches):
        x, y = (data[4 * (step % STEPS) :][:4] for data in (X, Y))
        states = [x]
        for name in NAMES:
            z = states[-1] @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
            states.append(z if name == "head" else np.tanh(z))
        gradients, upstream = {}, 2 * (states[-1] - y) / y.size
        for place in reversed(range(len(NAMES))):
            name = NAMES[place]
            z = upstream if name == "head" else upstream * (1 - states[place + 1] ** 2)
            gradients |= {f"{name}/kernel": states[place].T @ z, f"{name}/bias": z.sum(axis=0)}
            upstream = z @ weights[f"{name}/kernel"].T
        kind, rate, *rest = optimizer
        for name in trains(step):
            count[name] += 1
            for path in (f"{name}/kernel", f"{name}/bias"):
                gradient, (m, v) = gradients[path], slots[path]
                if kind == "sgd":
                    m[:] = rest[0] * m - rate(step) * gradient
                    weights[path] += m
                else:
                    t = count[name] if each_its_own_steps else step + 1
                    m += 0.1 * (gradient - m)
                    v += 0.001 * (gradient**2 - v)
                    weights[path] -= rate(step) * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-7)
    return weights


def gradually(step, length=2):
    """The layers that `GradualUnfreezing(steps=2)` trains."""
    return NAMES[max(len(NAMES) - 1 - step // length, 0) :]


def always(rate):
    return lambda step: rate


def synced(model):
    sync(model)
    return values(model)
