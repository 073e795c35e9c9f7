"""Scores of a classifier with their intervals, and its calibration, in NumPy."""

import math
import statistics
from typing import NamedTuple

import numpy as np

from keras_transfer.metrics import calibration_bins

SMALLEST = 1e-15  # Smaller probabilities count as this one in the log loss.


class Score(NamedTuple):
    """A score and the limits of its interval."""

    value: float
    low: float
    high: float


class Bin(NamedTuple):
    """The predictions whose confidence lies in an interval, without its lower limit, and their means, 0 without any."""

    low: float
    high: float
    count: int  # type: ignore[assignment]  # hides the method of tuples
    confidence: float
    accuracy: float


def softmax(logits):
    """Returns probabilities [rows, classes], float64, of logits."""
    logits = np.asarray(logits, "float64")
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def confusion_matrix(labels, predicted, count):
    """Returns the numbers of rows by label and by predicted class, an integer array [classes, classes]."""
    return np.bincount(labels * count + predicted, minlength=count**2).reshape(count, count)


def scores_of_counts(right, labelled, predicted):
    """Returns precision, recall and F1, 0 where undefined, given how often a class is right, a label, and predicted."""
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, labelled),
        "f1": _ratio(2 * right, labelled + predicted),
    }


def macro_f1(right, labelled, predicted, of_all):
    """Returns the mean F1 of the classes that occur in all rows, given the counts of `scores_of_counts` for a resample.

    A class that a resample lacks keeps its F1 of all rows. The mean over the other classes alone would be the score of
    another set of classes, whose interval may exclude the value.
    """
    everything, occurs = scores_of_counts(*of_all)["f1"], of_all[1] + of_all[2] > 0
    f1 = np.where(labelled + predicted > 0, scores_of_counts(right, labelled, predicted)["f1"], everything)
    return f1[occurs].mean().item() if occurs.any() else 0.0


def counts_of(matrix):
    """Returns how often each class is right, is a label, and is predicted, given a confusion matrix."""
    return np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)


def overall_scores(matrix, losses, of_all):
    """Returns the scores of a resample, given its confusion matrix, the losses of its rows, and the counts of all."""
    labelled, predicted = matrix.sum(axis=1, dtype="float64"), matrix.sum(axis=0, dtype="float64")
    right, total = np.trace(matrix), labelled.sum()
    # Gorodkin 2004, for any number of classes.
    spread = np.sqrt((total**2 - predicted @ predicted) * (total**2 - labelled @ labelled))
    return {
        "accuracy": float(right / total),
        "macro_f1": macro_f1(*counts_of(matrix), of_all),
        "matthews_correlation": float((right * total - labelled @ predicted) / spread) if spread else 0.0,
        "log_loss": float(losses.mean()),
    }


def scores_with_intervals(score, count, resamples, confidence, seed):
    """Returns `Score`s with percentile intervals (Efron 1979), given a function from an array of rows to floats."""
    random, values = np.random.default_rng(seed), score(np.arange(count))
    draws = [list(score(random.integers(count, size=count)).values()) for _ in range(resamples)]
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return {name: Score(values[name], float(low[i]), float(high[i])) for i, name in enumerate(values)}


def fraction_with_interval(count, total, confidence):
    """Returns a fraction as a `Score` with Wilson's interval, corrected for continuity (Newcombe 1998).

    It is also valid for few rows. (If all are right, a percentile interval would have no width.)
    """
    fraction, normal = count / total, statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    limits = []
    for sign in (-1, 1):
        spread = normal**2 - 1 / total + 4 * fraction * (total - count) + 2 * sign * (1 - 2 * fraction)
        offset = 1 + normal * math.sqrt(max(spread, 0.0))
        limits.append((2 * count + normal**2 + sign * offset) / (2 * (total + normal**2)))
    return Score(fraction, 0.0 if count == 0 else limits[0], 1.0 if count == total else limits[1])


def difference_with_interval(before, after, confidence):
    """Returns the difference of the fractions of two boolean arrays `[rows]` on the same rows as a `Score`.

    A row may also count as half, 0.5. Newcombe's interval for pairs (1998) combines those of both fractions. It is also
    valid for few rows.
    """
    first, second = (fraction_with_interval(float(part.sum()), len(part), confidence) for part in (before, after))
    spreads = before.std() * after.std()
    correlation = ((before * after).mean() - first.value * second.value) / spreads if spreads else 0.0

    def distance(a, b):
        return math.sqrt(max(a**2 - 2 * correlation * a * b + b**2, 0.0))

    value = second.value - first.value
    low = value - distance(second.value - second.low, first.high - first.value)
    return Score(value, low, value + distance(first.value - first.low, second.high - second.value))


def rate_of(name, values, before=None):
    """Returns the part of a row on values from 0 to 1, an array `[cases]`, and maybe on those of another model."""
    score = fraction_with_interval(float(values.sum()), len(values), 0.95)
    row = {name: score.value, "low": score.low, "high": score.high}
    if before is not None:
        change = difference_with_interval(before, values, 0.95)
        row |= {"before": float(before.mean()), "difference": change.value}
        row |= {"difference_low": change.low, "difference_high": change.high}
    return row


def rate_columns(name):
    """Returns the columns of a `Result` for what `rate_of` returns."""
    columns = {name: ".3f", "95% interval": (("low", "high"), ".3f"), "before": ".3f", "difference": "+.3f"}
    return {**columns, "interval of difference": (("difference_low", "difference_high"), "+.3f")}


def reliability(labels, probabilities):
    """Returns predictions grouped by their confidence, a list of `Bin`s of equal width."""
    bins = calibration_bins(labels, probabilities)
    rows = zip(bins["weight"].astype(int).tolist(), bins["probability"].tolist(), bins["accuracy"].tolist())
    return [Bin(i / len(bins["weight"]), (i + 1) / len(bins["weight"]), *row) for i, row in enumerate(rows)]


def _ratio(part, whole):
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
