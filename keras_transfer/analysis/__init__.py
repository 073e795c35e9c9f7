"""Analysis of trained models: what a classifier gets right and wrong, where, and how certain the figures are."""

from keras_transfer.analysis.reports.classification_report import ClassificationReport
from keras_transfer.analysis.reports.multi_label_report import MultiLabelReport
from keras_transfer.analysis.reports.reporting import report

__all__ = [
    "ClassificationReport",
    "MultiLabelReport",
    "report",
]
