"""Scores of a classifier equal those of scikit-learn, and their intervals and bins are as defined."""

import numpy as np
import pytest

from keras_transfer.analysis import ClassificationReport
from keras_transfer.analysis.scores import difference_with_interval


def report_of(labels, predicted, classes, **options):
    """A report on predictions that are all made with a probability of 0.9."""
    probabilities = np.full((len(labels), classes), 0.1 / (classes - 1))
    probabilities[np.arange(len(labels)), predicted] = 0.9
    return ClassificationReport(labels, probabilities, from_logits=False, **{"resamples": 2, **options})


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scores_equal_those_of_scikit_learn_also_for_classes_that_do_not_occur(classes):
    sklearn = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn: pip install scikit-learn")
    random = np.random.default_rng(classes)
    for case in range(40):
        count = int(random.integers(1, 30))
        labels = random.integers(0, random.integers(1, classes + 1), count)
        predicted = np.where(random.random(count) < 0.6, labels, random.integers(0, classes, count))
        report = report_of(labels, predicted, classes)
        found = {name: score.value for name, score in report.metrics.items()}
        assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(labels, predicted))
        expected = sklearn.f1_score(labels, predicted, average="macro", zero_division=0)
        assert found["macro_f1"] == pytest.approx(expected), case
        # scikit-learn warns if all labels are the same, where the coefficient is 0.
        if len(set(labels) | set(predicted)) > 1:
            assert found["matthews_correlation"] == pytest.approx(sklearn.matthews_corrcoef(labels, predicted))
        else:
            assert found["matthews_correlation"] == 0
        every = {"labels": range(classes)}
        expected = sklearn.log_loss(labels, report.probabilities, **every)
        assert found["log_loss"] == pytest.approx(expected)
        columns = sklearn.precision_recall_fscore_support(labels, predicted, zero_division=0, **every)
        for name, column in zip(("precision", "recall", "f1", "count"), columns):
            assert [values[name] for values in report.classes.values()] == pytest.approx(list(column))
        np.testing.assert_array_equal(
            report.confusion_matrix, sklearn.confusion_matrix(labels, predicted, labels=list(range(classes)))
        )


def test_intervals_are_percentiles_of_resamples_and_depend_only_on_the_seed():
    labels = np.arange(400) % 2
    predicted = np.where(np.arange(400) % 10, labels, 1 - labels)  # 90 % are right
    first, same, other = (
        report_of(labels, predicted, 2, resamples=500, seed=seed).metrics["log_loss"] for seed in (0, 0, 1)
    )
    assert first == same != other
    value = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    deviation = np.sqrt(0.9 * 0.1 / 400) * np.log(9)
    assert first.value == pytest.approx(value)
    assert first.low == pytest.approx(value - 1.96 * deviation, abs=0.02)
    assert first.high == pytest.approx(value + 1.96 * deviation, abs=0.02)
    narrow = report_of(labels, predicted, 2, resamples=500, confidence=0.5).metrics["log_loss"]
    assert first.low < narrow.low < value < narrow.high < first.high


@pytest.mark.parametrize("predict", [lambda labels: labels, lambda labels: 0 * labels], ids=["all right", "one class"])
def test_the_interval_of_macro_f1_contains_its_value_if_resamples_lack_classes(predict):
    labels = np.repeat(np.arange(40), 2)
    report = report_of(labels, predict(labels), 41, resamples=200, slices={"all": np.full(80, True)})
    for score in (report.metrics["macro_f1"], report.slices[-1].metrics["macro_f1"]):
        assert score.low <= score.value <= score.high
    expected = 1.0 if predict(labels)[-1] else 4 / 82 / 40
    assert report.metrics["macro_f1"].value == pytest.approx(expected)


def test_the_interval_of_accuracy_is_that_of_scipy_and_has_a_width_if_all_rows_are_right():
    stats = pytest.importorskip("scipy.stats", reason="needs SciPy: pip install scipy")
    for right, count in [(0, 1), (1, 1), (9, 9), (3, 7), (90, 100), (0, 40), (1000, 1000)]:
        labels = np.zeros(count, int)
        predicted = (np.arange(count) >= right).astype(int)
        for confidence in (0.5, 0.95):
            found = report_of(labels, predicted, 2, confidence=confidence).metrics["accuracy"]
            expected = stats.binomtest(right, count).proportion_ci(confidence, method="wilsoncc")
            assert found == pytest.approx((right / count, expected.low, expected.high)), (right, count)
            assert 0 <= found.low <= found.value <= found.high <= 1 and found.low < found.high


def test_the_calibration_error_is_the_weighted_difference_of_confidence_and_accuracy():
    probabilities = [[0.9, 0.1], [0.92, 0.08], [0.3, 0.7], [0.45, 0.55]]
    report = ClassificationReport([0, 1, 1, 0], probabilities, from_logits=False, resamples=2)
    filled = [part for part in report.reliability if part.count]
    assert [(part.count, part.accuracy) for part in filled] == [(1, 0.0), (1, 1.0), (2, 0.5)]
    assert filled[2].confidence == pytest.approx(0.91) and len(report.reliability) == 15
    assert report.calibration_error == pytest.approx((0.55 + 0.3 + 2 * 0.41) / 4)


def test_a_probability_of_zero_gives_a_finite_loss():
    report = ClassificationReport([1], [[1.0, 0.0]], from_logits=False, resamples=2)
    assert report.metrics["log_loss"].value == pytest.approx(-np.log(1e-15))
    assert report.metrics["matthews_correlation"].value == 0


def test_the_interval_of_a_difference_covers_it_as_often_as_it_says_and_has_a_width_if_all_rows_agree():
    random, covered = np.random.default_rng(0), []
    for _ in range(1000):
        draws = random.choice(4, size=30, p=[0.5, 0.1, 0.25, 0.15])  # right in both, only before, only after, in none
        score = difference_with_interval(draws < 2, (draws == 0) | (draws == 2), 0.95)
        covered.append(score.low <= 0.15 <= score.high)
    assert 0.94 < np.mean(covered) < 0.99  # It is corrected for continuity.
    same = difference_with_interval(np.zeros(5, bool), np.ones(5, bool), 0.95)
    assert same.value == same.high == 1 and 0 < same.low < 0.5
