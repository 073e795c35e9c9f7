"""Analysis of trained models: what a classifier gets right and wrong, how certain the figures are, where it looks."""

from keras_transfer.analysis.attention.weights import AttentionWeights, attention_weights
from keras_transfer.analysis.reports.classification_report import ClassificationReport
from keras_transfer.analysis.reports.multi_label_report import MultiLabelReport
from keras_transfer.analysis.reports.reporting import report

__all__ = [
    "AttentionWeights",
    "ClassificationReport",
    "MultiLabelReport",
    "attention_weights",
    "report",
]
