"""Mistakes in calls of `estimate_fisher` raise clear errors."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation.fisher import estimate_fisher
from tests.adaptation.fisher_models import data_of, features, linear


def softmax():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])


def one_logit():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


def frozen():
    model = linear()
    model.trainable = False
    return model


def twins():
    inputs = keras.Input((4,))
    return keras.Model(inputs, linear()(inputs) + linear()(inputs))


X, Y = features()


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda: keras.Sequential([keras.layers.Dense(2)]), {}, "built `keras.Model`. Received: model=<Sequential"),
        (frozen, {}, "must have trainable weights"),
        (twins, {}, "unique layer names. Received: duplicates=\\['dense/bias', 'dense/kernel'\\]"),
        (softmax, {}, "must be logits.*Received: outputs="),
        (one_logit, {}, "at least two classes.*Received: outputs of shape \\(20, 1\\)"),
        (linear, {"empirical": Y}, "Pass labels as `y`"),
        (linear, {"y": Y}, "Pass `empirical=True`.*Received: empirical=False"),
        (linear, {"empirical": True}, "requires `y`.*Received: no labels"),
        (linear, {"empirical": True, "y": Y + 1}, "from 0 to 2, .* Received: smallest=(0|1), largest=3"),
        (linear, {"empirical": True, "y": Y * 1.0}, "integers from 0 to 2.*Received: dtype='float64'"),
        (
            linear,
            {"empirical": True, "y": np.eye(3, dtype=int)[Y]},
            "pass `loss`. Received: dtype='int64', shape=\\(20, 3\\)",
        ),
        (linear, {"empirical": True, "y": Y[:5]}, "the same number of rows, at least one. Received: rows=\\[5, 20\\]"),
        (linear, {"x": iter([])}, "a sample weight above 0. Received: examples=0"),
        (linear, {"x": None}, "a dict or list of arrays, texts or a dataset. Received: x=None"),
        (linear, {"x": ["a text"]}, "Raw text requires a task with a preprocessor.*Received"),
        (linear, {"x": data_of([(X, Y)]), "y": Y, "empirical": True}, "must be None if `x` is a dataset"),
        (linear, {"x": data_of([(X, Y, -np.ones(20))])}, "must not be negative. Received: smallest=-1.0"),
        (linear, {"x": data_of([(X, Y, np.zeros(20))])}, "a sample weight above 0. Received: examples=20"),
        (
            linear,
            {"x": X * np.inf, "empirical": True, "y": Y},
            "finite.*Received: gradients=\\['dense/kernel'",
        ),
    ],
)
def test_a_mistake_is_a_clear_error(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_fisher(make(), **{"x": X, **arguments})


def test_replicas_are_an_error(monkeypatch):
    from keras_transfer.adaptation import fisher as information

    monkeypatch.setattr(information, "replicas_of", lambda model: (2, False))
    with pytest.raises(ValueError, match="several replicas.* Received: replicas=2"):
        estimate_fisher(linear(), X)
