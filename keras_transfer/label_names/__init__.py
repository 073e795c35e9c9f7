"""Names of classes, and labels in memory that are names or positions: which ones occur, and as arrays."""

from keras_transfer.label_names.columns import are_empty, has_names, whole_labels
from keras_transfer.label_names.listing import checked_names, label_of_accuracy, names_in, renamed
from keras_transfer.label_names.numbers import keys_as_positions
from keras_transfer.label_names.positions import (
    check_not_positions,
    in_order_of_names,
    multi_hot,
    names_of_numbers,
    positions_of,
    positions_of_numbers,
)
from keras_transfer.label_names.words import label_ids, weights_of_words

__all__ = [
    "are_empty",
    "check_not_positions",
    "checked_names",
    "has_names",
    "in_order_of_names",
    "keys_as_positions",
    "label_ids",
    "label_of_accuracy",
    "multi_hot",
    "names_in",
    "names_of_numbers",
    "positions_of",
    "positions_of_numbers",
    "renamed",
    "weights_of_words",
    "whole_labels",
]
