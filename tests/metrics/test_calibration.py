"""The expected calibration error equals its definition, from logits and from probabilities."""

from functools import partial

import numpy as np
import pytest

from keras_transfer.metrics import ExpectedCalibrationError, calibration_bins, expected_calibration_error
from tests.errors import check_errors
from tests.metrics.cases import COUNT, CROSSENTROPY, ROWS, random_weights, result_of, results_of, run_metric_test


def definition(labels, probabilities, weights, num_bins):
    """The error by Guo et al.: bin m holds the confidences in ((m - 1) / M, m / M]."""
    highest, right = probabilities.max(1), probabilities.argmax(1) == labels
    error = 0.0
    for m in range(1, num_bins + 1):
        rows = ((m - 1) / num_bins < highest) & (highest <= m / num_bins)
        error += abs(np.sum(weights[rows] * right[rows]) - np.sum(weights[rows] * highest[rows]))
    return error / weights.sum() if weights.sum() else 0.0


@pytest.mark.core
@pytest.mark.parametrize("num_bins", [1, 10, 15])
def test_it_equals_its_definition(num_bins):
    random, count = np.random.default_rng(num_bins), COUNT // 3 + 1
    labels, logits = random.integers(0, 3, (count, ROWS)), 2 * random.normal(size=(count, ROWS, 3)).astype("float32")
    weights = np.stack([random_weights(random) for _ in range(count)])
    exponents = np.exp(logits.astype("float64"))
    probabilities = exponents / exponents.sum(2, keepdims=True)
    # Rounding could move a confidence at the border of two bins into the other one.
    places = probabilities.max(2) * num_bins
    weights[np.abs(places - places.round()) < 1e-4] = 0
    (found,) = results_of([ExpectedCalibrationError(num_bins)], labels, logits, weights)
    for case, value in enumerate(found):
        arrays = labels[case], probabilities[case]
        expected = definition(*arrays, weights[case], num_bins)
        assert expected_calibration_error(*arrays, num_bins=num_bins, sample_weight=weights[case]) == pytest.approx(
            expected, abs=1e-6
        )
        assert value == pytest.approx(expected, abs=1e-6)
    assert np.mean(found > 0.05) > 0.5


def test_a_confidence_on_a_border_belongs_to_the_lower_bin():
    bins = calibration_bins([0, 1, 1], [[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]], num_bins=4)
    assert bins["weight"].tolist() == [0, 1, 1, 1]
    assert bins["probability"].tolist() == [0, 0.5, 0.75, 1]
    assert bins["accuracy"].tolist() == [0, 1, 1, 1]


def test_one_logit_is_that_of_class_1():
    logits = np.array([2.0, -1.0, 0.5], "float32")
    probabilities = 1 / (1 + np.exp(-logits))
    expected = expected_calibration_error([1, 1, 0], probabilities)
    assert expected == expected_calibration_error([1, 1, 0], np.stack([1 - probabilities, probabilities], 1)) > 0.1
    assert float(result_of(ExpectedCalibrationError(), [1, 1, 0], logits[:, None])) == pytest.approx(expected, abs=1e-6)


def test_one_column_of_probabilities_is_that_of_class_1():
    assert (
        expected_calibration_error([1, 0], [[0.75], [0.75]]) == expected_calibration_error([1, 0], [0.75, 0.75]) == 0.25
    )


@pytest.mark.core
def test_negative_labels_do_not_count_and_labels_that_do_not_exist_are_never_silent():
    probabilities = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    logits, metric = np.log(probabilities), ExpectedCalibrationError()
    expected = expected_calibration_error([0, 0], probabilities[:2])
    assert expected_calibration_error([0, 0, -1], probabilities) == expected == 0.25
    assert float(result_of(metric, [0, 0, -1], logits)) == pytest.approx(expected, abs=1e-6)
    assert np.isnan(float(result_of(metric, [0, 2, 0], logits)))
    assert float(result_of(metric, [0, 2, 0], logits, [1.0, 0.0, 0.0])) == pytest.approx(0.25, abs=1e-6)


def test_without_rows_the_error_is_0():
    assert expected_calibration_error([], np.zeros((0, 3))) == 0


def test_it_is_a_well_behaved_metric():
    labels, probabilities = np.arange(22) % 3, np.random.default_rng(0).dirichlet([1.0] * 3, 22).astype("float32")
    expected = expected_calibration_error(labels, probabilities, num_bins=7)
    make = partial(ExpectedCalibrationError, num_bins=7)
    run_metric_test(make, "expected_calibration_error", labels, np.log(probabilities), expected, loss=CROSSENTROPY)


test_arguments_that_cannot_be_meant_are_errors_that_say_where = check_errors(
    (
        lambda: expected_calibration_error([0, 1], [[0.5, 0.5], [-2.0, 3.0]]),
        "Use the softmax of logits. Received: -2.0 at position (1, 0)",
    ),
    (lambda: expected_calibration_error([0, 1], [0.5, np.nan]), "Received: nan at position 1"),
    (
        lambda: expected_calibration_error([0, 2, 0], np.ones((3, 2)) / 2),
        "integers below 2, the number of classes. Received: 2 at position 1",
    ),
    (lambda: expected_calibration_error([0.5, 1, 0], np.ones((3, 2)) / 2), "Received: 0.5 at position 0"),
    (lambda: calibration_bins([0, 1], np.ones((3, 2))), "Received: (2,), (2,) and (3, 2)"),
    (
        lambda: ExpectedCalibrationError().update_state(np.zeros((2, 3)), np.zeros((2, 3))),
        "one integer label per row. Received: labels of shape [batch, 3]",
    ),
)
