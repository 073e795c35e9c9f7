"""`L2SP` pulls the weights of adapters to the values with which they change nothing."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import values
from tests.helpers import save_and_load

STEP = 0.5


def array(weight):
    return np.array(ops.convert_to_numpy(weight))


def optimizer_of(model):
    penalty = kt.L2SP(1.0, new_strength=1.0)
    optimizer = LayerwiseOptimizer(keras.optimizers.SGD(STEP), model, penalty=penalty)
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def step(model):
    """Applies gradients of zero, so that only the penalty moves the weights."""
    weights = model.trainable_variables
    model.optimizer.apply([ops.zeros_like(ops.convert_to_tensor(weight)) for weight in weights], weights)


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("houlsby:2", ("gamma", "beta")),
        ("bitfit", ("bias", "beta")),
        pytest.param("ia3", ("key", "value", "inputs"), marks=pytest.mark.core),
        ("dora:r=2", ("magnitude",)),
    ],
)
def test_weights_that_change_nothing_at_another_value_than_zero_stay_there(spec, kept):
    model = kt.add_adapters(models.classifier(), spec, name="added")
    before = values(model)
    optimizer_of(model)
    step(model)
    for weight in model.trainable_variables:
        start = before[weight.path]
        name = weight.path.rpartition("/")[2]
        stays = "/added/" in weight.path and name.endswith(kept) and not name.startswith(("down", "up"))
        np.testing.assert_allclose(
            array(weight), start if stays else (1 - STEP) * start, atol=1e-6, err_msg=weight.path
        )


def test_copies_that_have_trained_are_pulled_back_to_the_originals():
    model = kt.add_adapters(models.classifier(), "bitfit")
    originals = {weight.path: array(weight) for weight in model.trainable_variables}
    for weight in model.trainable_variables:
        weight.assign(weight + 1)
    optimizer = optimizer_of(model)
    new = sum(np.sum((originals[path] + 1) ** 2) for path in ("logits/kernel", "logits/bias"))
    copied = sum(value.size for path, value in originals.items() if not path.startswith("logits"))
    np.testing.assert_allclose(optimizer.penalty_value(), (new + copied) / 2, rtol=1e-5)
    step(model)
    for weight in model.trainable_variables:
        if not weight.path.startswith("logits"):
            np.testing.assert_allclose(array(weight), originals[weight.path] + 1 - STEP, atol=1e-6)


def test_a_file_keeps_the_starts_of_copies():
    model = kt.add_adapters(models.classifier(), "bitfit")
    for weight in model.trainable_variables:
        weight.assign(weight + 1)
    optimizer = optimizer_of(model)
    again = save_and_load(model)
    np.testing.assert_allclose(again.optimizer.penalty_value(), optimizer.penalty_value(), rtol=1e-6)
