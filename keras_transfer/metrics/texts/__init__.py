"""Metrics of generated texts: overlap with references."""

from keras_transfer.metrics.texts.text_metric import TextMetric, check_counts, list_of_texts

__all__ = ["TextMetric", "check_counts", "list_of_texts"]
