"""Extractive question answering: answers that are parts of a text."""

from keras_transfer.tasks.questions.span_extractor import SpanExtractor

__all__ = [
    "SpanExtractor",
]
