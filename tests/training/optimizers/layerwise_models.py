"""Shared by the tests of `LayerwiseOptimizer`: a network of four layer groups, plain optimizers and formulas."""

import keras
import numpy as np

from keras_transfer.adaptation import EWC, layer_groups
from keras_transfer.callbacks import Stage, StagedTraining
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.building import build_optimizer
from tests.helpers import EAGER

RATE = 0.01
# Powers of 2, by which a float32 is multiplied without rounding.
HALVES = {"low": 0.125, "norm": 0.25, "mid": 0.5, "top": 1.0}
_random = np.random.default_rng(0)
X = _random.normal(size=(64, 4)).astype("float32")
Y = (X[:, :2] ** 2 + _random.normal(size=(64, 2))).astype("float32")


def net():
    """A network of the groups low, norm, mid and top, which is new, with the same weights each time."""
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((4,))
    for layer in (
        keras.layers.Dense(6, "tanh", bias_initializer="normal", name="low"),
        keras.layers.LayerNormalization(name="norm"),
        keras.layers.Dense(5, "tanh", bias_initializer="normal", name="mid"),
        keras.layers.Dense(2, bias_initializer="normal", name="top"),
    ):
        x = layer(x)
    return keras.Model(inputs, x)


def gradients(weights, steps=4, scale=1.0):
    """Lists of gradients for some steps, the same each time."""
    random = np.random.default_rng(1)
    return [[(scale * random.normal(size=w.shape)).astype("float32") for w in weights] for _ in range(steps)]


def apply(optimizer, weights, steps):
    """Takes a step with each list of gradients."""
    step = stepper(optimizer, weights)
    for given in steps:
        step(given)


def stepper(optimizer, weights):
    """A function that takes a step with a list of gradients. It is eager, because the steps are few."""
    optimizer.build(weights)
    return lambda given: optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in given], weights)


def arrays(weights):
    return [keras.ops.convert_to_numpy(weight).copy() for weight in weights]


def difference(ours, theirs):
    return float(max(np.abs(np.asarray(a) - b).max() for a, b in zip(ours, theirs, strict=True)))


def least_moved(ours, theirs):
    return float(min(np.abs(np.asarray(a) - b).max() for a, b in zip(ours, theirs, strict=True)))


def apart(make, factors, exclude=True):
    """A network whose groups have separate plain optimizers, these, and a function that takes a step with them."""
    model = net()
    places = {weight.path: place for place, weight in enumerate(model.trainable_weights)}
    parts = []
    for group in layer_groups(model):
        optimizer, vectors = make(RATE * factors[group.name]), [w for w in group.variables if len(w.shape) == 1]
        if exclude and len(vectors) == len(group.variables) and keras.backend.backend() == "torch":
            optimizer.weight_decay = None  # Keras on torch fails if all weights are excluded.
        elif exclude and optimizer.weight_decay:
            optimizer.exclude_from_weight_decay(var_list=vectors)
        optimizer.build(group.variables)
        parts.append((optimizer, group.variables, [places[weight.path] for weight in group.variables]))

    def step(given):
        given = [keras.ops.convert_to_tensor(gradient) for gradient in given]
        for optimizer, weights, own in parts:
            optimizer.apply([given[place] for place in own], weights)

    return model, parts, step


def parity(make, steps=4, **options):
    """The distance between `LayerwiseOptimizer` and separate optimizers, and the least that a weight moved."""
    one = net()
    optimizer = LayerwiseOptimizer(make(RATE), one, **options)
    two, _, step = apart(make, optimizer.rates, exclude=not options.get("decay_norms_and_biases"))
    start, given = arrays(one.trainable_weights), gradients(one.trainable_weights, steps)
    apply(optimizer, one.trainable_weights, given)
    for each in given:
        step(each)
    return difference(one.get_weights(), two.get_weights()), least_moved(one.get_weights(), start)


def penalized(penalty, steps=8):
    """The distance of SGD with a penalty from the formula in float64, and of the formula from SGD without it."""
    model = net()
    weights, factors = model.trainable_weights, HALVES
    optimizer = LayerwiseOptimizer(keras.optimizers.SGD(RATE), model, rates=factors, penalty=penalty)
    start, given = [value.astype("float64") for value in arrays(weights)], gradients(weights, steps)
    apply(optimizer, weights, given)

    values, plain = list(start), list(start)
    everything = isinstance(penalty, EWC)  # the Fisher information of the head too
    old = [place for place, weight in enumerate(weights) if everything or not weight.path.startswith("top")]
    for step in given:
        changes = {place: values[place] - start[place] for place in old}
        distance = np.sqrt(sum((change**2).sum() for change in changes.values()))
        for place, (weight, gradient) in enumerate(zip(weights, step)):
            if isinstance(penalty, EWC):
                term = penalty.strength * penalty.fisher[weight.path] * changes[place]
            elif place not in changes:
                term = penalty.new_strength * values[place]
            else:
                term = penalty.strength * changes[place] / (1.0 if penalty.squared else max(distance, 1e-12))
            rate = RATE * factors[weight.path.split("/")[0]]
            values[place] = values[place] - rate * (gradient + term)
            plain[place] = plain[place] - rate * gradient
    return difference(arrays(weights), values), difference(plain, values)


def ones(model):
    return {weight.path: np.ones(weight.shape, "float32") for weight in model.trainable_weights}


class Steps(keras.callbacks.Callback):
    """Records the longest step of a group's weights, as a multiple of the rate, from a batch on."""

    def __init__(self, group, first):
        super().__init__()
        self.group, self.first, self.lengths = group, first, []

    def on_train_batch_begin(self, batch, logs=None):
        if batch >= self.first:
            self.before = self.values()

    def on_train_batch_end(self, batch, logs=None):
        if batch >= self.first:
            self.lengths.append(difference(self.values(), self.before) / RATE)

    def values(self):
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        return arrays(self.model.get_layer(self.group).weights)


def late_start(wrapped, late, then=20, group="low", **options):
    """The lengths of the first steps of a group that begins late, in multiples of Adam's rate, and the step counts.

    The optimizer counts all steps before the last four of the first stage as taken.
    """
    model = net()
    adam = keras.optimizers.Adam(RATE, **options)
    model.compile(LayerwiseOptimizer(adam, model) if wrapped else adam, "mse", run_eagerly=EAGER)
    build_optimizer(model)
    parts = dict(zip(HALVES, model.optimizer.group_optimizers(), strict=True)) if wrapped else {}
    model.optimizer._iterations.assign(late - 4)  # `iterations` cannot be set if gradients are accumulated
    for name in ("mid", "top") if wrapped else ():
        parts[name].iterations.assign((late - 4) // options.get("gradient_accumulation_steps", 1))
    random = np.random.default_rng(0)
    x = random.normal(size=(4 * (4 + then), 4)).astype("float32")
    y = x[:, :2] ** 2 + random.normal(size=(len(x), 2))
    steps = Steps(group, 4)
    stages = StagedTraining([Stage(["mid", "top"], steps=4), Stage("all")])
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[stages, steps])
    return steps.lengths, {name: int(part.iterations) for name, part in parts.items()}


def resumed(model, path, x, y, **options):
    """The distance of a reloaded model from the original after further training, and how far this moved them."""
    model.fit(x, y, verbose=0, shuffle=False, **options)
    model.save(path)
    loaded = keras.saving.load_model(path)
    before = model.get_weights()
    for each in (model, loaded):
        each.fit(x, y, verbose=0, shuffle=False, epochs=2, **options)
    return difference(model.get_weights(), loaded.get_weights()), difference(model.get_weights(), before)
