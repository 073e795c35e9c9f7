"""Self-supervision: how a batch of token ids becomes inputs, targets and weights. NumPy, for all backends."""

from keras_transfer.objectives.next_token import NextToken
from keras_transfer.objectives.token_masking import TokenMasking

__all__ = [
    "NextToken",
    "TokenMasking",
]
