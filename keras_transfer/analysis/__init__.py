"""Analysis of trained models: what a classifier gets right and wrong, where, and how certain the figures are."""

from keras_transfer.analysis.reports import ClassificationReport, MultiLabelReport, report

__all__ = [
    "ClassificationReport",
    "MultiLabelReport",
    "report",
]
