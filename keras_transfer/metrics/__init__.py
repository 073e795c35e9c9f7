"""Metrics that Keras lacks, for labels of words, for entities, and for language models."""

from keras_transfer.metrics.entity_f1 import EntityF1
from keras_transfer.metrics.perplexity import Perplexity
from keras_transfer.metrics.spans import entities, entity_report
from keras_transfer.metrics.word_accuracy import WordAccuracy

__all__ = ["EntityF1", "Perplexity", "WordAccuracy", "entities", "entity_report"]
