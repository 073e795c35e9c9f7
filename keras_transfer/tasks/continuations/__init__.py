"""The common methods of tasks that write text: continuing prompts, scoring texts, and choosing the likeliest label."""

from keras_transfer.tasks.continuations.generates import Generates
from keras_transfer.tasks.continuations.id_rows import check_rows, is_texts, prepared_rows, rows_of, token_rows
from keras_transfer.tasks.continuations.in_context import InContext, check_different, written_labels
from keras_transfer.tasks.continuations.lengths import lengths_of, max_length_of
from keras_transfer.tasks.continuations.likelihood import Likelihood, Scores, scorer
from keras_transfer.tasks.continuations.options import GenerationOptions
from keras_transfer.tasks.continuations.tokens import named_token_id, text_pieces, token_preprocessor

__all__ = [
    "Generates",
    "GenerationOptions",
    "InContext",
    "Likelihood",
    "Scores",
    "check_different",
    "check_rows",
    "is_texts",
    "lengths_of",
    "max_length_of",
    "named_token_id",
    "prepared_rows",
    "rows_of",
    "scorer",
    "text_pieces",
    "token_preprocessor",
    "token_rows",
    "written_labels",
]
