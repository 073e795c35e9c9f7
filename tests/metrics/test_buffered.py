"""AUC equals scikit-learn's, and the correlations SciPy's; more rows than the capacity are never silent."""

import warnings
from functools import partial

import numpy as np
import pytest

from keras_transfer.metrics import AUC, PearsonCorrelation, SpearmanCorrelation
from tests.errors import check_errors
from tests.metrics.cases import COUNT, ROWS, random_weights, result_of, results_of, run_metric_test

sklearn = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Only one class is present", "ignore:An input array is constant", "ignore:No (neg|pos)ative samples"
)
ALL = {AUC: "auc", PearsonCorrelation: "pearson_correlation", SpearmanCorrelation: "spearman_correlation"}


@pytest.mark.core
def test_the_auc_of_two_classes_equals_that_of_scikit_learn():
    random = np.random.default_rng(0)
    chances = random.choice([0.0, 0.1, 0.5, 1.0], (COUNT, 1))
    labels = (random.random((COUNT, ROWS)) < chances).astype("int32")
    logits = (random.integers(-4, 5, (COUNT, ROWS)) / 2).astype("float32")  # with ties
    weights = np.stack([random_weights(random) for _ in range(COUNT)])
    (found,) = results_of([AUC(capacity=ROWS)], labels, logits, weights)
    assert 0.1 * COUNT < np.isnan(found).sum() < 0.9 * COUNT
    for case, real in enumerate(weights > 0):
        arrays = labels[case, real], logits[case, real]
        expected = sklearn.roc_auc_score(*arrays, sample_weight=weights[case, real]) if real.any() else np.nan
        assert found[case] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_the_auc_of_more_classes_is_one_against_the_rest_as_in_scikit_learn():
    random, count = np.random.default_rng(0), max(COUNT // 10, 20)
    # Every fifth case lacks a class.
    labels = np.stack([random.integers(0, 4 if case % 5 else 3, ROWS) for case in range(count)])
    logits = (4 * random.normal(size=(count, ROWS, 4))).astype("float32")
    logits[:, 5:10] = logits[:, :5]  # ties
    weights = np.maximum([random_weights(random) for _ in range(count)], random.random((count, ROWS)) < 0.7)
    (found,) = results_of([AUC(capacity=ROWS)], labels.astype("int32"), logits, weights.astype("float32"))
    assert 0 < np.isnan(found).sum() < 0.8 * count
    for case, real in enumerate(weights > 0):
        values = np.exp(logits[case, real].astype("float64"))
        options = {"multi_class": "ovr", "labels": range(4), "sample_weight": weights[case, real]}
        expected = sklearn.roc_auc_score(labels[case, real], values / values.sum(1, keepdims=True), **options)
        assert found[case] == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_the_auc_of_several_labels_per_row_is_the_mean_over_labels():
    random = np.random.default_rng(0)
    labels, logits = random.integers(0, 2, (ROWS, 3)), random.normal(size=(ROWS, 3)).astype("float32")
    weights = random.random(ROWS)
    expected = sklearn.roc_auc_score(labels, logits, average="macro", sample_weight=weights)
    assert float(result_of(AUC(capacity=ROWS), labels, logits, weights)) == pytest.approx(expected, abs=1e-5)


def test_the_auc_orders_rows_whose_probabilities_round_to_1():
    logits = np.array([[60.0, 0, 0], [80.0, 0, 0], [0, 60.0, 0], [0, 0, 60.0]], "float32")
    # The probability of class 0 is 1 for the first two rows, but the second one, of class 0, has the higher logit.
    assert float(result_of(AUC(capacity=8), [1, 0, 1, 2], logits)) == pytest.approx((1 + 0.875 + 1) / 3)


def test_correlations_equal_those_of_scipy():
    random, case = np.random.default_rng(0), np.arange(COUNT)[:, None]
    true, given = random.normal(size=(2, COUNT, ROWS)) * [[[1.0]], [[100.0]]] + 10.0 * (case % 3)
    given = np.where(case % 4 == 0, given + 80 * true, given)
    true, given = np.where(case % 3 == 0, [true.round(), (given / 50).round()], [true, given])  # ties
    true, given = np.where(case % 10 == 9, 0.1, true).astype("float32"), given.astype("float32")
    weights = np.stack([random_weights(random) for _ in range(COUNT)])
    metrics = [PearsonCorrelation(capacity=ROWS), SpearmanCorrelation(capacity=ROWS)]
    found = results_of(metrics, true, given[:, :, None], weights)
    assert 0.1 * COUNT < np.isnan(found[0]).sum() < 0.6 * COUNT
    for case, times in enumerate(weights.astype(int)):
        # A row of weight 2 counts as two rows.
        rows = [np.repeat(values[case].astype("float64"), times) for values in (true, given)]
        for function, values in zip((stats.pearsonr, stats.spearmanr), found):
            expected = function(*rows)[0] if times.sum() > 1 else np.nan
            assert values[case] == pytest.approx(expected, abs=2e-5, nan_ok=True), (function, case)


def test_a_large_mean_does_not_hide_the_correlation():
    random = np.random.default_rng(0)
    true = (2000 + random.normal(size=200)).astype("float32")
    given = (true + random.normal(size=200)).astype("float32")
    expected = stats.pearsonr(true.astype("float64"), given.astype("float64"))[0]
    assert float(result_of(PearsonCorrelation(), true, given)) == pytest.approx(expected, abs=1e-5)


def test_the_correlation_of_several_targets_is_the_mean():
    true, given = np.random.default_rng(0).normal(size=(2, 30, 3)).astype("float32")
    expected = np.mean([stats.spearmanr(true[:, i], given[:, i])[0] for i in range(3)])
    assert float(result_of(SpearmanCorrelation(), true, given)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("cls", [AUC, PearsonCorrelation, SpearmanCorrelation])
def test_more_rows_than_the_capacity_make_the_result_nan_with_a_warning_until_the_reset(cls):
    metric = cls(capacity=4)
    true, given = np.array([0, 1, 0, 1, 1], "float32"), np.arange(5, dtype="float32")
    metric.update_state(true, given, [1.0, 1.0, 1.0, 1.0, 0.0])  # A row of weight 0 needs no room.
    assert 0 < float(metric.result()) <= 1
    metric.update_state(true[:3], given[:3])
    with pytest.warns(UserWarning, match=rf"room for 4 rows and received 3 more. Use `{cls.__name__}\(capacity=7\)`"):
        assert np.isnan(float(metric.result()))
    with warnings.catch_warnings():  # It is given once, not again at every step.
        warnings.simplefilter("error", UserWarning)
        metric.update_state(true[:3], given[:3])
        assert np.isnan(float(metric.result()))
    metric.reset_state()
    metric.update_state(true[:4], given[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert 0 < float(metric.result()) <= 1


@pytest.mark.parametrize("cls", ALL)
def test_outputs_that_are_not_numbers_count_only_in_rows_with_a_weight(cls):
    true, given = np.array([0, 1, 1], "float32"), np.array([0.0, np.nan, 2.0], "float32")
    assert np.isnan(float(result_of(cls(), true, given)))
    assert float(result_of(cls(), true, given, [1.0, 0.0, 1.0])) == pytest.approx(1)


def test_a_label_that_does_not_exist_makes_the_auc_nan():
    logits = np.array([[3.0, 0, 0], [0, 3.0, 0], [0, 0, 3.0], [0, 3.0, 0]])
    assert np.isnan(float(result_of(AUC(), [0, 1, 2, 3], logits)))
    assert float(result_of(AUC(), [0, 1, 2, 3], logits, [1.0, 1.0, 1.0, 0.0])) == 1


@pytest.mark.parametrize("cls", ALL)
def test_they_are_well_behaved_metrics(cls):
    given = np.random.default_rng(0).normal(size=(30, 1)).astype("float32")
    true = (given[:, 0] + np.cos(np.arange(30)) > 0).astype("float32")
    expected = float(result_of(cls(), true, given))
    run_metric_test(partial(cls, capacity=31), ALL[cls], true, given, expected, empty=np.nan)


test_other_shapes_are_an_error = check_errors(
    *(
        (
            lambda true=true, given=given: PearsonCorrelation().update_state(np.zeros(true), np.zeros(given)),
            "[batch], [batch, 1] or [batch, targets]. Received: ",
        )
        for true, given in (((4,), (4, 2)), ((4, 2), (4, 3)), ((4, 1, 1), (4, 1)))
    ),
    (lambda: AUC().update_state(np.zeros((4, 2)), np.zeros((4, 3))), "Received: (4, 2) and (4, 3)"),
)
