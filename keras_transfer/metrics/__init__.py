"""Metrics that Keras lacks: for classes from logits, entities, answers, rankings and language models."""

from keras_transfer.metrics.benchmarks import glue_metrics, squad_scores
from keras_transfer.metrics.classification import (
    AUC,
    ExpectedCalibrationError,
    F1Score,
    MatthewsCorrelation,
    Precision,
    Recall,
    calibration_bins,
    expected_calibration_error,
)
from keras_transfer.metrics.ranking import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK
from keras_transfer.metrics.regression import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.metrics.words import EntityF1, Perplexity, WordAccuracy, entities, entity_report

__all__ = [
    "AUC",
    "NDCG",
    "EntityF1",
    "ExpectedCalibrationError",
    "F1Score",
    "HitsAtK",
    "MatthewsCorrelation",
    "MeanReciprocalRank",
    "PearsonCorrelation",
    "Perplexity",
    "Precision",
    "Recall",
    "RecallAtK",
    "SpearmanCorrelation",
    "WordAccuracy",
    "calibration_bins",
    "entities",
    "entity_report",
    "expected_calibration_error",
    "glue_metrics",
    "squad_scores",
]
