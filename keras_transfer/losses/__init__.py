"""Losses that Keras lacks: for integer labels, for vectors of related texts, and for logits of another model."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.losses.classification import (
    IntegerLabelsLoss,
    SmoothedCrossentropy,
    SparseCategoricalFocalCrossentropy,
)
from keras_transfer.losses.distances import ContrastiveLoss, CosineSimilarityLoss, MarginMSELoss, TripletLoss
from keras_transfer.losses.distillation import DistillationLoss
from keras_transfer.losses.learning_without_forgetting import LearningWithoutForgettingLoss
from keras_transfer.losses.matryoshka import MatryoshkaLoss
from keras_transfer.losses.multiple_negatives import MultipleNegativesRankingLoss

__all__ = [
    "ContrastiveLoss",
    "CosineSimilarityLoss",
    "DistillationLoss",
    "IntegerLabelsLoss",
    "LearningWithoutForgettingLoss",
    "MarginMSELoss",
    "MatryoshkaLoss",
    "MultipleNegativesRankingLoss",
    "SmoothedCrossentropy",
    "SparseCategoricalFocalCrossentropy",
    "TripletLoss",
]

open_door(sys.modules[__name__])
