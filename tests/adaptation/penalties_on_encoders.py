"""Checks of rates and pulls on pretrained encoders, on any backend: ours, KerasHub's, and on TensorFlow a module."""

import importlib.util

import keras
import numpy as np

from keras_transfer.adaptation import EWC, L2SP, LayerwiseOptimizer, estimate_fisher, layer_groups
from tests.adaptation.staging_encoders import LABELS
from tests.adaptation.staging_models import changed, values

RATE, STRENGTH = 1.0, 0.5
KINDS = ["ours", *(["keras_hub"] if importlib.util.find_spec("keras_hub") else [])]


def train(make, steps, **options):
    """The model after some steps of SGD with `LayerwiseOptimizer`, and its weights before each of them and after."""
    keras.utils.set_random_seed(0)
    model, inputs = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {name: option(model, inputs) if callable(option) else option for name, option in options.items()}
    model.compile(LayerwiseOptimizer(keras.optimizers.SGD(RATE), model, **options), loss)
    trail = [values(model)]
    for _ in range(steps):
        model.train_on_batch(inputs, LABELS)
        trail.append(values(model))
    return model, trail


def resting(model):
    """Attention takes no notice of a shift of all keys, and no gradient is not quite none."""
    return {weight.path for weight in model.weights if weight.path.endswith("key/bias")}


def check_rates(make):
    """A group's first step is its multiple of the plain one, and of rate 0 it is none, to the bit."""
    model, (start, plain) = train(make, 1)
    names = [group.name for group in layer_groups(model)]
    rates = {name: [0.0, 0.5, 2.0][depth % 3] for depth, name in enumerate(names)}
    model, (_, now) = train(make, 1, rates=rates)
    trained = {weight.path for weight in model.trainable_weights}
    for group in layer_groups(model):
        paths = {weight.path for weight in group.variables} & trained
        moved = {path for path in changed(start, now) if path in paths}
        assert moved - resting(model) == (paths if rates[group.name] else set()) - resting(model), group.name
        for path in paths:
            step = rates[group.name] * (plain[path] - start[path])
            np.testing.assert_allclose(now[path] - start[path], step, atol=1e-6, err_msg=path)


def check_penalty(make, penalty, importance):
    """After two steps what `pull` adds is what the formula says of the way that the first went, for each weight."""
    _, (start, first, plain) = train(make, 2)
    model, (_, same, second) = train(make, 2, penalty=penalty)
    pretrained = {weight.path for group in layer_groups(model) if group.pretrained for weight in group.variables}
    trained = {weight.path for weight in model.trainable_weights}
    assert pretrained & trained and trained - pretrained
    seen = set()
    for path in trained:
        np.testing.assert_allclose(same[path], first[path], atol=1e-6, err_msg=path)  # there was no way yet
        way = first[path] - start[path]
        added = -RATE * STRENGTH * importance.get(path, 1.0) * way if path in pretrained else np.zeros_like(way)
        np.testing.assert_allclose(second[path] - plain[path], added, atol=1e-6, err_msg=path)
        seen |= {path} if np.abs(added).max() > 1e-5 else set()
    assert len(seen) > len(pretrained & trained) / 2  # the way of many a bias is too short to see it


def check_l2sp(make):
    check_penalty(make, L2SP(STRENGTH, 0.0), {})


def check_ewc(make):
    fisher = {}

    def penalty(model, inputs):
        fisher.update(estimate_fisher(model, inputs, seed=0))
        assert set(fisher) == {weight.path for weight in model.trainable_weights}
        largest = max(values.max() for values in fisher.values())
        for path in fisher:
            fisher[path] = 1 + fisher[path] / largest  # a pull that can be seen, everywhere
        return EWC(dict(fisher), STRENGTH)

    check_penalty(make, penalty, fisher)


CHECKS = {"rates": check_rates, "L2-SP": check_l2sp, "EWC": check_ewc}
