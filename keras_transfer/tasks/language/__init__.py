"""Language models that process text in one direction, and their targets: the next tokens."""

from keras_transfer.tasks.language.causal_lm import causal_head, check_causal, checked_max_length
from keras_transfer.tasks.language.next_tokens import NextTokenReader, NextTokens

__all__ = ["NextTokenReader", "NextTokens", "causal_head", "check_causal", "checked_max_length"]
