"""Metrics of words and tokens: accuracy, entities and perplexity."""

from keras_transfer.metrics.words.entity_f1 import EntityF1
from keras_transfer.metrics.words.perplexity import Perplexity
from keras_transfer.metrics.words.spans import OUTSIDE, entities, read_labels
from keras_transfer.metrics.words.word_accuracy import WordAccuracy

__all__ = ["OUTSIDE", "EntityF1", "Perplexity", "WordAccuracy", "entities", "read_labels"]
