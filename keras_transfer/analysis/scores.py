"""Scores of a classifier with their bootstrap intervals, and its calibration, in NumPy."""

from typing import NamedTuple

import numpy as np

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
        confidence: Float. Mean probability of the predicted classes, NaN without predictions.
        accuracy: Float. Fraction of right predictions, NaN without predictions.
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


def reliability(confidences, right, bins=15):
    """Returns the predictions by their confidence, as a list of `Bin`s of equal width (Guo et al. 2017).

    Args:
        confidences: Float array [rows]. Probability of the predicted class.
        right: Boolean array [rows]. Whether the prediction is right.
        bins: Integer. Number of bins. Defaults to `15`.
    """
    place = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(place, confidences, bins) / counts
        accuracy = np.bincount(place, right, bins) / counts
    return [
        Bin(i / bins, (i + 1) / bins, int(counts[i]), float(confidence[i]), float(accuracy[i])) for i in range(bins)
    ]


def calibration_error(confidences, right):
    """Returns the expected calibration error: the mean difference of confidence and accuracy, weighted by the bins."""
    filled = [part for part in reliability(confidences, right) if part.count]
    return float(sum(part.count * abs(part.accuracy - part.confidence) for part in filled) / len(right))


def _ratio(part, whole):
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
