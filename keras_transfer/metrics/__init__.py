"""Metrics that Keras lacks: of words that are not adjacent positions, and of entities; they know no model."""

from keras_transfer.metrics.entities import entities, entity_report
from keras_transfer.metrics.entity_f1 import EntityF1
from keras_transfer.metrics.word_accuracy import WordAccuracy

__all__ = ["EntityF1", "WordAccuracy", "entities", "entity_report"]
