"""`WordAccuracy`: each word counts once, in batches of any length."""

import numpy as np
import pytest

from keras_transfer.metrics import WordAccuracy
from tests.errors import check_errors
from tests.metrics.cases import CROSSENTROPY, pass_through, run_metric_test


def random_batch(seed, length):
    random = np.random.default_rng(seed)
    return random.integers(-1, 3, (4, length)).astype("int32"), random.normal(size=(4, length, 3)).astype("float32")


def fraction_correct(true, outputs, weights):
    weights = weights * (true >= 0)
    return np.sum((outputs.argmax(-1) == true) * weights) / np.sum(weights)


@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.0, 2.0, 0.5]), np.random.default_rng(0).random((4, 7))])
def test_it_is_the_fraction_of_correct_words(weights):
    true, outputs = random_batch(0, 7)
    metric = WordAccuracy()
    metric.update_state(true, outputs, weights)
    full = np.ones((4, 7)) if weights is None else weights.reshape(4, -1) * np.ones((4, 7))
    assert 0.1 < fraction_correct(true, outputs, full) < 0.9
    assert float(metric.result()) == pytest.approx(fraction_correct(true, outputs, full), abs=1e-6)


def test_words_of_short_and_long_batches_have_the_same_weight():
    metric, right, words = WordAccuracy(), 0, 0
    for length in (2, 30, 7):
        true, outputs = random_batch(length, length)
        metric.update_state(true, outputs)
        right += np.sum(outputs.argmax(-1) == true)
        words += np.sum(true >= 0)
    assert float(metric.result()) == pytest.approx(right / words, abs=1e-6)


@pytest.mark.core
@pytest.mark.parametrize("length", [None, 7])
def test_a_model_can_use_it_weighted_or_not(length):
    weighted = [WordAccuracy(name="weighted")]
    model = pass_through((length, 3), CROSSENTROPY, metrics=[WordAccuracy()], weighted_metrics=weighted)
    true, outputs = random_batch(1, 7)
    weights = np.random.default_rng(2).random(true.shape)
    logs = model.evaluate(outputs, true, sample_weight=weights, verbose=0, return_dict=True)
    assert logs["accuracy"] == pytest.approx(fraction_correct(true, outputs, np.ones(true.shape)), abs=1e-6)
    assert logs["weighted"] == pytest.approx(fraction_correct(true, outputs, weights), abs=1e-6)


def test_it_is_a_well_behaved_metric():
    true, outputs = random_batch(3, 7)
    run_metric_test(WordAccuracy, "accuracy", true, outputs, fraction_correct(true, outputs, 1.0), loss=CROSSENTROPY)


test_other_shapes_are_an_error = check_errors(
    (((1, 4, 1), (1, 4, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    (((1, 4), (1, 4)), "the shape [batch, length] and `y_pred` ... Received: "),
    (((1, 4), (1, 5, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    (((2, 4), (1, 4, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    call=lambda true, outputs: WordAccuracy().update_state(np.zeros(true, "int32"), np.zeros(outputs)),
)
