"""Language models: self-supervised training, generation and likelihoods."""

from keras_transfer.tasks.language.causal_parts import causal_head, check_causal, checked_max_length
from keras_transfer.tasks.language.generates import Generates
from keras_transfer.tasks.language.likelihood import Likelihood, scorer
from keras_transfer.tasks.language.token_lists import (
    check_rows,
    is_texts,
    named_token_id,
    prepared_rows,
    text_pieces,
    token_preprocessor,
)
from keras_transfer.tasks.language.token_reader import NextTokenReader
from keras_transfer.tasks.language.token_targets import HiddenTokens, NextTokens, own_loss_only

__all__ = [
    "Generates",
    "HiddenTokens",
    "Likelihood",
    "NextTokenReader",
    "NextTokens",
    "causal_head",
    "check_causal",
    "check_rows",
    "checked_max_length",
    "is_texts",
    "named_token_id",
    "own_loss_only",
    "prepared_rows",
    "scorer",
    "text_pieces",
    "token_preprocessor",
]
