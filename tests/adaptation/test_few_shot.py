"""SetFit: the encoder learns from pairs of few texts, then the head learns the classes."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import sample_pairs, setfit
from tests.tasks.tiny import classifier, difference, message

TEXTS, LABELS = ["a b good", "good c", "good d e", "a bad", "bad f", "g h bad"], [1, 1, 1, 0, 0, 0]


def test_each_example_is_in_as_many_pairs_of_its_class_as_of_others():
    labels = np.array(["x", "y", "y", "z", "x", "z", "z"])
    first, second, same = sample_pairs(labels, num_iterations=3, seed=0)
    assert len(first) == len(second) == len(same) == 2 * 3 * 7
    assert (first != second).all() and set(first) == set(range(7))
    np.testing.assert_array_equal(labels[first] == labels[second], same == 1)
    assert same.sum() == 21


def test_a_small_class_is_in_as_many_pairs_as_a_large_one_and_each_of_its_examples_is_drawn():
    labels = np.array([0] * 90 + [1] * 3 + [2] * 7)
    first, second, same = sample_pairs(labels, num_iterations=3, seed=0)
    assert np.bincount(labels[first]).tolist() == [200] * 3
    assert set(np.bincount(first)[90:93]) <= {66, 68} and set(first) == set(range(100))
    assert (labels[first] == labels[second]).tolist() == (same == 1).tolist() and (first != second).all()


def test_examples_of_classes_of_one_size_are_in_the_same_number_of_pairs():
    first, _, _ = sample_pairs([1, 0, 1, 0, 0, 1], num_iterations=4, seed=0)
    assert np.bincount(first).tolist() == [8] * 6


def test_the_pairs_of_many_examples_are_drawn_at_once():
    first, _, _ = sample_pairs(np.arange(40000) % 2, num_iterations=5, seed=0)
    assert len(first) == 400000


def test_the_seed_determines_the_pairs():
    pairs = [np.array(sample_pairs(LABELS, num_iterations=2, seed=seed)) for seed in (0, 0, 1)]
    assert (pairs[0] == pairs[1]).all() and (pairs[0] != pairs[2]).any()


def test_set_fit_moves_the_encoder_by_pairs_and_then_the_head_alone(eagerly):
    model = classifier(pooling="mean")
    model.compile("sgd")
    start = model.get_weights()
    on_pairs, head = setfit(model, TEXTS, LABELS, num_iterations=2, epochs=2, learning_rate=1e-2, verbose=0)
    assert on_pairs.history["loss"][-1] < on_pairs.history["loss"][0]
    assert head.history["loss"][-1] < head.history["loss"][0]
    weights = model.get_weights()
    assert difference(weights[:-2], start[:-2]) > 1e-3 and difference(weights[-2:], start[-2:]) > 1e-3
    assert all(weight.trainable for weight in model.weights)
    assert (model.predict(TEXTS, verbose=0).argmax(1) == LABELS).all()


def test_after_set_fit_the_model_trains_on_with_all_weights(eagerly):
    model = classifier(pooling="mean", label_names=["bad", "good"])
    names = ["good" if label else "bad" for label in LABELS]
    setfit(model, TEXTS, names, num_iterations=1, verbose=0)
    start = model.get_weights()
    model.fit(TEXTS, names, verbose=0)
    weights = model.get_weights()
    assert difference(weights[:-2], start[:-2]) > 0 and difference(weights[-2:], start[-2:]) > 0


@pytest.mark.parametrize(
    ("options", "labels", "expected"),
    [
        ({}, LABELS[1:5], "Received: texts=6, labels=4"),
        ({}, [1, 1, 1, 0, 2, 2], "Labels must be integers from 0 to 1. Received: 2 at position 4"),
        ({"label_names": ["bad", "good"]}, ["good"] * 3 + ["bad"] * 2 + ["bat"], "Did you mean 'bad'?"),
        ({}, [[0, 1]] * 6, "`y` must be one label for each example. Received: y=(6, 2)"),
        ({"multi_label": True}, LABELS, "Received: multi_label=True, siamese=False, windows=None"),
        ({"siamese": True}, LABELS, "Received: multi_label=False, siamese=True, windows=None"),
        ({"windows": "mean"}, LABELS, "Received: multi_label=False, siamese=False, windows='mean'"),
    ],
)
def test_labels_and_models_without_pairs_are_errors_before_any_training(options, labels, expected):
    model = classifier(**options)
    start = model.get_weights()
    assert expected in message(lambda: setfit(model, TEXTS, labels))
    assert difference(model.get_weights(), start) == 0 and not model.compiled


def test_a_frozen_encoder_is_an_error():
    model = classifier()
    model.trainable = False
    assert "The encoder must have trainable weights" in message(lambda: setfit(model, TEXTS, LABELS))


def test_examples_without_partners_and_other_models_are_errors():
    assert "Received: classes={0: 1, 1: 2}" in message(lambda: sample_pairs([0, 1, 1]))
    assert "Received: classes={1: 2}" in message(lambda: sample_pairs([1, 1]))
    assert "Received: y=(2, 2)" in message(lambda: sample_pairs([[0, 1], [1, 0]]))
    assert "must be a `TextClassifier`" in message(lambda: setfit(keras.Sequential(), TEXTS, LABELS))
