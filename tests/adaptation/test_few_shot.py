"""SetFit: the encoder learns from pairs of few texts, then the head learns the classes."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import sample_pairs, set_fit
from tests.tasks.tiny import classifier, difference, message

TEXTS, LABELS = ["a b good", "good c", "good d e", "a bad", "bad f", "g h bad"], [1, 1, 1, 0, 0, 0]


@pytest.mark.core
def test_each_example_is_in_as_many_pairs_of_its_class_as_of_others():
    labels = np.array(["x", "y", "y", "z", "x", "z", "z"])
    first, second, same = sample_pairs(labels, num_iterations=3, seed=0)
    assert len(first) == len(second) == len(same) == 2 * 3 * 7
    assert np.bincount(first).tolist() == [6] * 7 and (first != second).all()
    np.testing.assert_array_equal(labels[first] == labels[second], same == 1)
    assert same.sum() == 21


def test_the_seed_determines_the_pairs():
    pairs = [np.array(sample_pairs(LABELS, 2, seed)) for seed in (0, 0, 1)]
    assert (pairs[0] == pairs[1]).all() and (pairs[0] != pairs[2]).any()


@pytest.mark.core
def test_set_fit_moves_the_encoder_by_pairs_and_then_the_head_alone(eagerly):
    model = classifier(pooling="mean")
    model.compile("sgd")
    start = model.get_weights()
    on_pairs, head = set_fit(model, TEXTS, LABELS, num_iterations=2, epochs=2, learning_rate=1e-2, verbose=0)
    assert on_pairs.history["loss"][-1] < on_pairs.history["loss"][0]
    assert head.history["loss"][-1] < head.history["loss"][0]
    weights = model.get_weights()
    assert difference(weights[:-2], start[:-2]) > 1e-3 and difference(weights[-2:], start[-2:]) > 1e-3
    assert all(weight.trainable for weight in model.weights)
    assert (model.predict(TEXTS, verbose=0).argmax(1) == LABELS).all()


def test_examples_without_partners_and_other_models_are_errors():
    assert "Received: {0: 1, 1: 2}" in message(lambda: sample_pairs([0, 1, 1]))
    assert "Received: {1: 2}" in message(lambda: sample_pairs([1, 1]))
    assert "`num_iterations` must be at least 1" in message(lambda: sample_pairs(LABELS, 0))
    assert "Received: 6 texts, 4 labels" in message(lambda: set_fit(classifier(), TEXTS, LABELS[1:5]))
    assert "must be a `TextClassifier`" in message(lambda: set_fit(keras.Sequential(), TEXTS, LABELS))
