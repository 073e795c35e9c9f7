"""Objectives whose targets are sequences: the next tokens, or what a decoder writes."""

from keras_transfer.objectives.sequences.next_token import NextToken
from keras_transfer.objectives.sequences.sequence_objective import SequenceObjective

__all__ = ["NextToken", "SequenceObjective"]
