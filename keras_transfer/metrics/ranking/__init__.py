"""Metrics of rankings."""

from keras_transfer.metrics.ranking.rankings import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK

__all__ = [
    "NDCG",
    "HitsAtK",
    "MeanReciprocalRank",
    "RecallAtK",
]
