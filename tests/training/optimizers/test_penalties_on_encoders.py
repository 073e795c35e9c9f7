"""Rates by group, L2-SP and EWC have their exact effect on our encoders, KerasHub's and TF Hub modules."""

import importlib.util

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, L2SP, estimate_fisher, layer_groups
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.training.runs.staging_encoders import ENCODERS, LABELS
from tests.training.runs.staging_models import changed, values

RATE, STRENGTH = 1.0, 0.5
KINDS = ["ours", *(["keras_hub"] if importlib.util.find_spec("keras_hub") else [])]


def train(make, steps, **options):
    """The model after some steps of SGD with `LayerwiseOptimizer`, and its weights before and after each step."""
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
    """Paths of weights whose gradient is only rounding error: attention ignores a shift of all keys."""
    return {weight.path for weight in model.weights if weight.path.endswith("key/bias")}


def check_rates(make):
    """The first step of each group is its rate times the plain step, and exactly zero for a rate of 0."""
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
    """In the second step the penalty adds what the formula gives for the distance of the first step."""
    _, (start, first, plain) = train(make, 2)
    model, (_, same, second) = train(make, 2, penalty=penalty)
    pretrained = {weight.path for group in layer_groups(model) if group.pretrained for weight in group.variables}
    trained = {weight.path for weight in model.trainable_weights}
    assert pretrained & trained and trained - pretrained
    seen = set()
    for path in trained:
        np.testing.assert_allclose(same[path], first[path], atol=1e-6, err_msg=path)  # The distance was 0.
        distance = first[path] - start[path]
        added = -RATE * STRENGTH * importance.get(path, 1.0) * distance if path in pretrained else 0 * distance
        np.testing.assert_allclose(second[path] - plain[path], added, atol=1e-6, err_msg=path)
        seen |= {path} if np.abs(added).max() > 1e-5 else set()
    assert len(seen) > len(pretrained & trained) / 2  # The distance of many biases is too small.


def check_l2sp(make):
    check_penalty(make, L2SP(STRENGTH, new_strength=0.0), {})


def check_ewc(make):
    fisher = {}

    def penalty(model, inputs):
        fisher.update(estimate_fisher(model, inputs, seed=0))
        assert set(fisher) == {weight.path for weight in model.trainable_weights}
        largest = max(values.max() for values in fisher.values())
        for path in fisher:
            fisher[path] = 1 + fisher[path] / largest  # So the effect is visible everywhere.
        return EWC(dict(fisher), STRENGTH, groups="pretrained")

    check_penalty(make, penalty, fisher)


CHECKS = {"rates": check_rates, "L2-SP": check_l2sp, "EWC": check_ewc}


pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        pytest.param("ours", "L2-SP", marks=pytest.mark.core),
        *((kind, "EWC") for kind in KINDS if kind != "ours"),
        ("module", "rates"),
    ],
)
def test_rates_and_penalties_have_their_exact_effect_on_an_encoder(kind, check):
    CHECKS[check](ENCODERS[kind])
