"""What objectives draw at random, and what noise does to token ids, given what was drawn."""

from keras_transfer.objectives.base.draws import (
    as_rows,
    check_inner_rate,
    check_kinds,
    check_rates,
    check_seed,
    draw_ids,
    hide,
    mask_tokens,
    padded_rows,
    word_starts_of,
)
from keras_transfer.objectives.base.noise import (
    corrupt_spans,
    count_insertions,
    find_sentences,
    fit_lengths,
    insert_tokens,
    mask_spans,
    permute_sentences,
    rotate,
)

__all__ = [
    "as_rows",
    "check_inner_rate",
    "check_kinds",
    "check_rates",
    "check_seed",
    "corrupt_spans",
    "count_insertions",
    "draw_ids",
    "find_sentences",
    "fit_lengths",
    "hide",
    "insert_tokens",
    "mask_spans",
    "mask_tokens",
    "padded_rows",
    "permute_sentences",
    "rotate",
    "word_starts_of",
]
