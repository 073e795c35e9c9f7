"""Losses that Keras lacks: for integer labels, and for the vectors of texts that belong together or do not."""

from keras_transfer.losses.classification import SmoothedCrossentropy, SparseFocalCrossentropy
from keras_transfer.losses.distances import ContrastiveLoss, CosineSimilarityLoss, TripletLoss
from keras_transfer.losses.matryoshka import Matryoshka
from keras_transfer.losses.multiple_negatives import MultipleNegativesRanking

__all__ = [
    "ContrastiveLoss",
    "CosineSimilarityLoss",
    "Matryoshka",
    "MultipleNegativesRanking",
    "SmoothedCrossentropy",
    "SparseFocalCrossentropy",
    "TripletLoss",
]
