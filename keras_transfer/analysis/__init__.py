"""Analysis of trained models: what a classifier gets right and wrong, where, and how certain the figures are."""

from keras_transfer.analysis.classification_report import ClassificationReport
from keras_transfer.analysis.multi_label_report import MultiLabelReport
from keras_transfer.analysis.reporting import report

__all__ = ["ClassificationReport", "MultiLabelReport", "report"]
