"""Language models that read from left to right: training, generation and likelihoods."""

from keras_transfer.tasks.language.causal_lm import causal_head, check_causal, checked_max_length
from keras_transfer.tasks.language.generates import Generates
from keras_transfer.tasks.language.in_context import InContext, written_labels
from keras_transfer.tasks.language.likelihood import Likelihood, scorer
from keras_transfer.tasks.language.next_tokens import NextTokenReader, NextTokens
from keras_transfer.tasks.language.token_lists import (
    check_new_tokens,
    check_rows,
    is_texts,
    named_token_id,
    prepared_rows,
    text_pieces,
    token_preprocessor,
)

__all__ = [
    "Generates",
    "InContext",
    "Likelihood",
    "NextTokenReader",
    "NextTokens",
    "causal_head",
    "check_causal",
    "check_new_tokens",
    "check_rows",
    "checked_max_length",
    "is_texts",
    "named_token_id",
    "prepared_rows",
    "scorer",
    "text_pieces",
    "token_preprocessor",
    "written_labels",
]
