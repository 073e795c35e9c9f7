"""The loss of distillation against its formula and that of Keras."""

import keras
import numpy as np
import pytest

from keras_transfer.losses import DistillationLoss
from tests.helpers import save_and_load


def logits(seed):
    return (3 * np.random.default_rng(seed).normal(size=(5, 4))).astype("float32")


def log_softmax(values):
    values = values.astype("float64")
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


@pytest.mark.core
@pytest.mark.parametrize("temperature", [1.0, 2.0, 4.0])
def test_the_loss_is_the_divergence_at_a_temperature_times_its_square_as_in_keras(temperature):
    teacher, student = logits(0), logits(1)
    p, q = log_softmax(teacher / temperature), log_softmax(student / temperature)
    expected = temperature**2 * np.mean(np.sum(np.exp(p) * (p - q), axis=-1))
    assert float(DistillationLoss(temperature)(teacher, student)) == pytest.approx(expected, rel=1e-5)
    # With the name of the loss, which is its default, Keras computes something else.
    keras_loss = keras.distillation.LogitsDistillation(temperature, loss=keras.losses.KLDivergence())
    found = float(keras_loss.compute_loss(keras.ops.convert_to_tensor(teacher), keras.ops.convert_to_tensor(student)))
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_saved_with_its_temperature():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    model.compile("sgd", DistillationLoss(3.0))
    assert save_and_load(model).loss.temperature == 3.0
