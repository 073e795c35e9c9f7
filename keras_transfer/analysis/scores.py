"""Scores of a classifier with their bootstrap intervals, and its calibration, in NumPy."""

from typing import NamedTuple

import numpy as np

from keras_transfer.metrics import calibration_bins

SMALLEST = 1e-15  # The log loss counts smaller probabilities as this one.


class Score(NamedTuple):
    """A score and its bootstrap interval.

    Attributes:
        value: Float. The score.
        low, high: Floats. The limits of the interval.
    """

    value: float
    low: float
    high: float


class Bin(NamedTuple):
    """The predictions whose confidence lies in an interval.

    Attributes:
        low, high: Floats. The interval, without its lower limit.
        count: Integer. Number of predictions.
        confidence: Float. Mean probability of the predicted classes, 0 without predictions.
        accuracy: Float. Fraction of right predictions, 0 without predictions.
    """

    low: float
    high: float
    count: int
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


def class_scores(matrix):
    """Returns precision, recall and F1 of each class, 0 where undefined, given a confusion matrix."""
    right, labelled, predicted = np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, labelled),
        "f1": _ratio(2 * right, labelled + predicted),
    }


def overall_scores(matrix, losses):
    """Returns the scores of all rows as a dict, given their confusion matrix and the loss of each row."""
    labelled, predicted = matrix.sum(axis=1, dtype="float64"), matrix.sum(axis=0, dtype="float64")
    right, total = np.trace(matrix), labelled.sum()
    # Gorodkin 2004, for any number of classes.
    spread = np.sqrt((total**2 - predicted @ predicted) * (total**2 - labelled @ labelled))
    return {
        "accuracy": float(right / total),
        "macro_f1": float(class_scores(matrix)["f1"][labelled + predicted > 0].mean()),
        "matthews_correlation": float((right * total - labelled @ predicted) / spread) if spread else 0.0,
        "log_loss": float(losses.mean()),
    }


def scores_with_intervals(labels, predicted, losses, count, resamples, confidence, seed):
    """Returns a dict of `Score`s with percentile intervals (Efron 1979).

    Args:
        labels, predicted: Integer arrays [rows].
        losses: Float array [rows].
        count: Integer. Number of classes.
        resamples: Integer. Number of times that the rows are drawn anew, with replacement.
        confidence: Float. Fraction of the resamples that the interval contains.
        seed: Integer. Seed of the draws.
    """
    random, draws = np.random.default_rng(seed), []
    for _ in range(resamples):
        rows = random.integers(len(labels), size=len(labels))
        drawn = overall_scores(confusion_matrix(labels[rows], predicted[rows], count), losses[rows])
        draws.append(list(drawn.values()))
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    values = overall_scores(confusion_matrix(labels, predicted, count), losses)
    return {name: Score(values[name], float(low[i]), float(high[i])) for i, name in enumerate(values)}


def reliability(labels, probabilities):
    """Returns the predictions by their confidence, as a list of `Bin`s of equal width.

    Args:
        labels: Integer array [rows].
        probabilities: Float array [rows, classes].
    """
    bins = calibration_bins(labels, probabilities)
    rows = zip(bins["weight"].astype(int).tolist(), bins["probability"].tolist(), bins["accuracy"].tolist())
    return [Bin(i / len(bins["weight"]), (i + 1) / len(bins["weight"]), *row) for i, row in enumerate(rows)]


def _ratio(part, whole):
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
