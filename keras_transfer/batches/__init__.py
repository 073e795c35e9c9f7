"""How prepared rows become batches: their lengths, their order, and what is in a row."""

from keras_transfer.batches.batching import UNUSED, Batches
from keras_transfer.batches.choice_batching import choice_batches, choice_columns
from keras_transfer.batches.contents import Contents, no_weights, real_lengths
from keras_transfer.batches.contexts import check_span_preprocessor, context_windows, windows_in_memory
from keras_transfer.batches.part_batching import are_parts, part_batches, parts_item, to_parts, with_placeholders
from keras_transfer.batches.pipeline import (
    as_pipeline,
    counting_epochs,
    of_at_most,
    times_class_weights,
)
from keras_transfer.batches.planning import LENGTH_STEP, MAX_LENGTHS, Options, lengths_for
from keras_transfer.batches.span_batching import span_batches, span_columns, window_distance
from keras_transfer.batches.text_batching import batches, preprocess_texts
from keras_transfer.batches.word_batching import trim, word_batches

__all__ = [
    "LENGTH_STEP",
    "MAX_LENGTHS",
    "UNUSED",
    "Batches",
    "Contents",
    "Options",
    "are_parts",
    "as_pipeline",
    "batches",
    "check_span_preprocessor",
    "choice_batches",
    "choice_columns",
    "context_windows",
    "counting_epochs",
    "lengths_for",
    "no_weights",
    "of_at_most",
    "part_batches",
    "parts_item",
    "preprocess_texts",
    "real_lengths",
    "span_batches",
    "span_columns",
    "times_class_weights",
    "to_parts",
    "trim",
    "window_distance",
    "windows_in_memory",
    "with_placeholders",
    "word_batches",
]
