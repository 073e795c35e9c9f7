"""Objectives that hide tokens, which are predicted in their places."""

from keras_transfer.objectives.masking.permutation_language_model import PermutationLanguageModel
from keras_transfer.objectives.masking.token_masking import TokenMasking

__all__ = ["PermutationLanguageModel", "TokenMasking"]
