"""Vectors of texts, and search among them."""

from keras_transfer.tasks.embedding.text_embedder import TextEmbedder

__all__ = [
    "TextEmbedder",
]
