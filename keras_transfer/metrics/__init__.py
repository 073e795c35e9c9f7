"""Metrics that Keras lacks, for labels of words and for entities."""

from keras_transfer.metrics.entity_f1 import EntityF1
from keras_transfer.metrics.spans import entities, entity_report
from keras_transfer.metrics.word_accuracy import WordAccuracy

__all__ = ["EntityF1", "WordAccuracy", "entities", "entity_report"]
