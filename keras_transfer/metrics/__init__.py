"""Metrics that Keras lacks: for classes from logits, entities, answers, rankings, language models and texts."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.metrics.auc import AUC
from keras_transfer.metrics.calibration import ExpectedCalibrationError, calibration_bins, expected_calibration_error
from keras_transfer.metrics.class_counts import F1Score, MatthewsCorrelation, Precision, Recall
from keras_transfer.metrics.correlations import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.metrics.entity_f1 import EntityF1
from keras_transfer.metrics.glue import glue_metrics
from keras_transfer.metrics.perplexity import Perplexity
from keras_transfer.metrics.rankings import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK
from keras_transfer.metrics.rouge import Rouge
from keras_transfer.metrics.spans import entities, entity_report
from keras_transfer.metrics.squad import Squad, squad_scores
from keras_transfer.metrics.text_metric import TextMetric
from keras_transfer.metrics.translations import Bleu, Chrf, Ter
from keras_transfer.metrics.word_accuracy import WordAccuracy

# isort: split
# For other subpackages, not for users.
from keras_transfer.metrics.class_counts import ClassCounts
from keras_transfer.metrics.spans import OUTSIDE, read_labels
from keras_transfer.metrics.text_metric import check_counts, list_of_texts

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

open_door(sys.modules[__name__])
