"""Metrics that Keras lacks: for classes from logits, entities, answers, rankings, language models and texts."""

from keras_transfer.metrics.benchmarks.glue import glue_metrics
from keras_transfer.metrics.benchmarks.squad import Squad, squad_scores
from keras_transfer.metrics.classification.auc import AUC
from keras_transfer.metrics.classification.calibration import (
    ExpectedCalibrationError,
    calibration_bins,
    expected_calibration_error,
)
from keras_transfer.metrics.classification.class_counts import F1Score, MatthewsCorrelation, Precision, Recall
from keras_transfer.metrics.ranking.rankings import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK
from keras_transfer.metrics.regression.correlations import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.metrics.texts.rouge import Rouge
from keras_transfer.metrics.texts.text_metric import TextMetric
from keras_transfer.metrics.texts.translations import Bleu, Chrf, Ter
from keras_transfer.metrics.words.entity_f1 import EntityF1
from keras_transfer.metrics.words.perplexity import Perplexity
from keras_transfer.metrics.words.spans import entities, entity_report
from keras_transfer.metrics.words.word_accuracy import WordAccuracy

__all__ = [
    "AUC",
    "NDCG",
    "Bleu",
    "Chrf",
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
    "Rouge",
    "SpearmanCorrelation",
    "Squad",
    "Ter",
    "TextMetric",
    "WordAccuracy",
    "calibration_bins",
    "entities",
    "entity_report",
    "expected_calibration_error",
    "glue_metrics",
    "squad_scores",
]
