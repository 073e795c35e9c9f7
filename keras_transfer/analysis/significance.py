"""Statistics in NumPy: intervals of means over seeds and over groups of rows, the paired t test, rank correlation."""

import math

import numpy as np


def t_probability(t, degrees):
    """Returns the probability that the absolute value of Student's t is at most `t`.

    The sums are finite and exact for an integer number of degrees of freedom, at least 1.

    Source: Abramowitz and Stegun 1964, equations 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    odd, cosine = degrees % 2, math.cos(angle)
    term, total = cosine if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def t_quantile(probability, degrees):
    """Returns the `t` for which `t_probability(t, degrees)` is `probability`."""
    low, high = 0.0, math.pi / 2  # These are angles, which are bounded.
    for _ in range(60):
        middle = (low + high) / 2
        below = t_probability(math.sqrt(degrees) * math.tan(middle), degrees) < probability
        low, high = (middle, high) if below else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def mean_interval(values, probability=0.95):
    """Returns the mean of values and half the width of its t interval, which is None for a single value."""
    values = np.asarray(values, "float64")
    if len(values) < 2:
        return float(values.mean()), None
    error = values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(t_quantile(probability, len(values) - 1) * error)


def paired_test(values, others):
    """Returns the p value of the two-sided paired t test, None for fewer than two pairs or equal differences."""
    differences = np.subtract(values, others, dtype="float64")
    if len(differences) < 2 or not np.ptp(differences) > 0:
        return None
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(len(differences)))
    return 1 - t_probability(abs(float(t)), len(differences) - 1)


def bootstrap_interval(values, groups=None, weights=None, seed=0):
    """Returns the limits of the 95% percentile interval (Efron 1979) of what `resampled_means` returns."""
    low, high = np.quantile(resampled_means(values, groups, weights, seed), [0.025, 0.975], axis=-1)
    return low, high


def resampled_means(values, groups=None, weights=None, seed=0):
    """Returns the means [1000] of values [rows], or [series, 1000] of [rows, series], drawn with replacement.

    Groups [rows], such as the sentences of words, are drawn as a whole. Sums are divided by those of the weights.
    """
    values = np.asarray(values, "float64")
    groups = np.arange(len(values)) if groups is None else np.asarray(groups)
    count = int(groups.max()) + 1

    def of_groups(rows):
        sums = np.zeros((count, *rows.shape[1:]))
        np.add.at(sums, groups, rows)
        return sums

    draws = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=1000)
    sizes = draws @ (np.bincount(groups) if weights is None else of_groups(np.asarray(weights, "float64")))
    return (draws @ of_groups(values)).T / sizes.T


def spearman(values, others):
    """Returns Spearman's rank correlation of two arrays [values], or an array [rows] of those of [rows, values].

    Equal values share their rank. It is NaN if all values of one side are equal.
    """

    def ranks(rows):
        codes = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
        codes += np.arange(len(rows))[:, None] * codes.size  # Each row has values of its own.
        _, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
        found = (np.cumsum(counts) - (counts - 1) / 2)[places].reshape(rows.shape)
        return found - found.mean(axis=1, keepdims=True)

    first, second = ranks(np.atleast_2d(values)), ranks(np.atleast_2d(others))
    with np.errstate(invalid="ignore"):
        found = (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return found if np.ndim(values) > 1 else float(found[0])
