"""Self-supervision: turns a batch of token ids into inputs, targets and weights in NumPy, for all backends."""

from keras_transfer.objectives.next_token import NextToken
from keras_transfer.objectives.token_masking import TokenMasking

__all__ = [
    "NextToken",
    "TokenMasking",
]
