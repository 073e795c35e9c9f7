"""Metrics that Keras lacks: for classes from logits, entities, answers, rankings and language models."""

from keras_transfer.metrics.auc import AUC
from keras_transfer.metrics.calibration import (
    ExpectedCalibrationError,
    calibration_bins,
    expected_calibration_error,
)
from keras_transfer.metrics.class_counts import F1, MatthewsCorrelation, Precision, Recall
from keras_transfer.metrics.correlations import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.metrics.entity_f1 import EntityF1
from keras_transfer.metrics.glue import glue_metrics
from keras_transfer.metrics.perplexity import Perplexity
from keras_transfer.metrics.ranking import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK
from keras_transfer.metrics.spans import entities, entity_report
from keras_transfer.metrics.squad import squad_scores
from keras_transfer.metrics.word_accuracy import WordAccuracy

__all__ = [
    "AUC",
    "F1",
    "NDCG",
    "EntityF1",
    "ExpectedCalibrationError",
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
