"""Strings in the graph: normalizing, splitting, merging, characters, and tables of strings."""

from keras_transfer.text.strings.byte_pairs import encode_words, make_pairs, make_whole, merge_pairs
from keras_transfer.text.strings.characters import characters_of_bytes, skip_characters, utf8_widths
from keras_transfer.text.strings.fastai_rules import BEGIN_TEXT, MARKED_SPACE
from keras_transfer.text.strings.gpt2_words import put_space_before, split_gpt2
from keras_transfer.text.strings.normalizer import (
    MARK,
    MAX_WORD_LENGTH,
    UNKNOWN,
    checked_utf8,
    is_reachable,
    lower,
    normalize,
    normalize_characters,
    replace_newer,
)
from keras_transfer.text.strings.pieces import align_ragged_right, join_pieces, take_pieces, without_first_space
from keras_transfer.text.strings.scripts import count_words, script_of, scripts_of
from keras_transfer.text.strings.splitting import CUT, check_split, split_around, split_at, split_words
from keras_transfer.text.strings.string_table import look_up, make_table

__all__ = [
    "BEGIN_TEXT",
    "CUT",
    "MARK",
    "MARKED_SPACE",
    "MAX_WORD_LENGTH",
    "UNKNOWN",
    "align_ragged_right",
    "characters_of_bytes",
    "check_split",
    "checked_utf8",
    "count_words",
    "encode_words",
    "is_reachable",
    "join_pieces",
    "look_up",
    "lower",
    "make_pairs",
    "make_table",
    "make_whole",
    "merge_pairs",
    "normalize",
    "normalize_characters",
    "put_space_before",
    "replace_newer",
    "script_of",
    "scripts_of",
    "skip_characters",
    "split_around",
    "split_at",
    "split_gpt2",
    "split_words",
    "take_pieces",
    "utf8_widths",
    "without_first_space",
]
