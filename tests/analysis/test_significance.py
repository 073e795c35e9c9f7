"""Intervals, paired tests and rank correlations equal those of SciPy."""

import numpy as np
import pytest

from keras_transfer.analysis.significance import (
    bootstrap_interval,
    mean_interval,
    paired_test,
    spearman,
    t_probability,
    t_quantile,
)


def test_quantiles_are_those_of_printed_tables():
    found = [t_quantile(0.95, degrees) for degrees in (1, 2, 3, 4, 9, 30)]
    np.testing.assert_allclose(found, [12.706, 4.303, 3.182, 2.776, 2.262, 2.042], atol=5e-4)


def test_probabilities_intervals_and_tests_equal_those_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="needs SciPy: pip install scipy")
    for degrees in range(1, 12):
        for t in (0.0, 0.3, 1.0, 4.0, 40.0):
            expected = 1 - 2 * stats.t.sf(t, degrees)
            assert t_probability(t, degrees) == pytest.approx(expected, abs=1e-12)
        assert t_quantile(0.99, degrees) == pytest.approx(stats.t.ppf(0.995, degrees), rel=1e-9)
    random = np.random.default_rng(0)
    values, others = random.normal(size=5), random.normal(size=5)
    mean, half = mean_interval(values)
    expected = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose([mean - half, mean + half], expected)
    assert paired_test(values, others) == pytest.approx(stats.ttest_rel(values, others).pvalue, abs=1e-12)


def test_one_value_has_no_interval_and_equal_differences_no_test():
    assert mean_interval([0.5]) == (0.5, None)
    assert mean_interval([0.5, 0.5]) == (0.5, 0.0)
    for values, others in (([1.0], [0.0]), ([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0], [0.0, 1.0])):
        assert paired_test(values, others) is None


def test_bootstrap_draws_whole_groups():
    alone = np.diff(bootstrap_interval(np.tile([0.0, 1.0], 200)))[0]
    assert alone == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(400), rel=0.1)
    # Ten equal rows of each of 40 groups tell no more than one of them.
    together = np.diff(bootstrap_interval(np.repeat(np.tile([0.0, 1.0], 20), 10), np.repeat(np.arange(40), 10)))[0]
    assert together == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(40), rel=0.1)
    both = bootstrap_interval(np.stack([np.arange(9.0), np.arange(9.0) + 5], axis=1))
    np.testing.assert_allclose(both[0], np.add(bootstrap_interval(np.arange(9.0))[0], [0, 5]))


def test_rank_correlation_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="needs SciPy: pip install scipy")
    random = np.random.default_rng(0)
    values, others = random.integers(0, 8, (2, 50))  # with many equal values
    assert spearman(values, others) == pytest.approx(stats.spearmanr(values, others).statistic, abs=1e-12)
    rows = random.integers(0, 5, (2, 6, 8))
    np.testing.assert_allclose(spearman(*rows), [stats.spearmanr(*pair).statistic for pair in zip(*rows)], atol=1e-12)
    assert spearman([3, 1, 2], [30, 10, 20]) == 1 and np.isnan(spearman([1, 1], [1, 2]))
