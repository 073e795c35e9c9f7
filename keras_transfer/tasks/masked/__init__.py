"""Tasks that predict the hidden or replaced tokens of a text, from the tokens on both sides."""

from keras_transfer.tasks.masked.hidden_tokens import HiddenTokens

__all__ = ["HiddenTokens"]
