"""Embeddings: from ids, positions, segments, speakers or characters to vectors, and back."""

from keras_transfer.layers.embeddings.characters import CharacterCNN
from keras_transfer.layers.embeddings.embedding_dropout import EmbeddingDropout
from keras_transfer.layers.embeddings.input_embeddings import PositionEmbedding, SegmentEmbedding, SinusoidalPositions
from keras_transfer.layers.embeddings.output_embeddings import OutputEmbeddings, table_of
from keras_transfer.layers.embeddings.speakers import SpeakerEmbedding

__all__ = [
    "CharacterCNN",
    "EmbeddingDropout",
    "OutputEmbeddings",
    "PositionEmbedding",
    "SegmentEmbedding",
    "SinusoidalPositions",
    "SpeakerEmbedding",
    "table_of",
]
