"""The value of a penalty in the logs of `fit`, against its formula in numpy."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, L2SP
from keras_transfer.callbacks import PenaltyLogger, Stage, StagedTraining
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.helpers import EAGER
from tests.training.optimizers.layerwise_models import RATE, X, Y, net, ones

FISHER = {path: np.random.default_rng(3).uniform(0, 2, value.shape) for path, value in ones(net()).items()}
PENALTIES = {
    "squared": (lambda: L2SP(0.5, new_strength=0.25), lambda old, new, _: 0.25 * old + 0.125 * new),
    "unsquared": (
        lambda: L2SP(0.5, new_strength=0.25, squared=False),
        lambda old, new, _: 0.5 * old**0.5 + 0.125 * new,
    ),
    "EWC": (lambda: EWC(FISHER, 3.0), lambda old, new, important: 1.5 * important),
}


def fitted(penalty, *callbacks, wrap=lambda optimizer: optimizer, **options):
    model = net()
    start = {weight.path: weight.numpy() for weight in model.weights}
    model.compile(
        wrap(LayerwiseOptimizer(keras.optimizers.SGD(RATE), model, penalty=penalty)), "mse", run_eagerly=EAGER
    )
    options = {"batch_size": 32, "epochs": 2, "verbose": 0, **options}
    history = model.fit(X, Y, callbacks=[PenaltyLogger(), *callbacks], **options).history
    return start, {weight.path: weight.numpy() for weight in model.weights}, history


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.core] * (name == "unsquared")) for name in PENALTIES]
)
def test_the_logged_penalty_agrees_with_its_formula(name):
    make, formula = PENALTIES[name]
    start, now, history = fitted(make())
    squares = {path: (now[path] - start[path]).astype("float64") ** 2 for path in now}
    old = sum(values.sum() for path, values in squares.items() if not path.startswith("top"))
    new = sum((value.astype("float64") ** 2).sum() for path, value in now.items() if path.startswith("top"))
    important = sum((values * FISHER[path]).sum() for path, values in squares.items())
    assert len(history["penalty"]) == 2
    assert history["penalty"][-1] == pytest.approx(formula(old, new, important), rel=1e-5)


def test_later_callbacks_see_the_penalty_and_frozen_weights_count():
    seen = []
    look = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["penalty"]))
    stages = StagedTraining([Stage("low", epochs=1), Stage("mid")])
    start, now, history = fitted(L2SP(0.5, new_strength=0.0), stages, look)
    assert seen == history["penalty"]
    squares = sum(((now[path] - start[path]) ** 2).sum() for path in now if path.startswith(("low", "mid")))
    assert seen[-1] == pytest.approx(0.25 * squares, rel=1e-5)


def test_it_finds_the_penalty_below_loss_scaling():
    *_, expected = fitted(L2SP(0.5))
    *_, history = fitted(
        L2SP(0.5), wrap=lambda optimizer: keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
    )
    assert history["penalty"] == pytest.approx(expected["penalty"], rel=1e-5)


def test_an_optimizer_without_a_penalty_is_an_error():
    with pytest.raises(ValueError, match="`LayerwiseOptimizer` with a `penalty`.*Received: LayerwiseOptimizer"):
        fitted(None)


def test_it_is_made_again_from_its_config():
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(PenaltyLogger(name="distance")))
    assert type(again) is PenaltyLogger and again.get_config() == {"name": "distance"}
