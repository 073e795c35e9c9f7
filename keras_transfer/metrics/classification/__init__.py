"""Metrics of classifiers, from logits."""

from keras_transfer.metrics.classification.auc import AUC
from keras_transfer.metrics.classification.calibration import (
    ExpectedCalibrationError,
    calibration_bins,
    expected_calibration_error,
)
from keras_transfer.metrics.classification.class_counts import (
    ClassCounts,
    F1Score,
    MatthewsCorrelation,
    Precision,
    Recall,
)

__all__ = [
    "AUC",
    "ClassCounts",
    "ExpectedCalibrationError",
    "F1Score",
    "MatthewsCorrelation",
    "Precision",
    "Recall",
    "calibration_bins",
    "expected_calibration_error",
]
