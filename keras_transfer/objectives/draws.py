"""What several objectives draw at random, what they need of a vocabulary, and the checks of their rates and rows."""

import string

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.objectives.noise import MASK, RANDOM, SAME, replace_tokens

_PUNCTUATION = [mark.encode() for mark in string.punctuation]


def draw_ids(random, count, vocabulary_size, special_ids):
    """Returns random ids that are not special, an integer array [count]."""
    special_ids = np.unique(np.asarray(special_ids, int))
    drawn = random.integers(0, max(vocabulary_size - len(special_ids), 1), count)
    for special in special_ids:
        drawn += drawn >= special
    return drawn


def hide(ids, random, objective, mask_id, vocabulary_size, special_ids, spans=None):
    """Returns what becomes of hidden tokens, as `ids`: masks, random tokens or the same, at the rates of the objective.

    All tokens with the same number in `spans`, an integer array [tokens], become one of the three.
    """
    drawn = draw_ids(random, len(ids), vocabulary_size, special_ids)
    value, mask_rate = random.random(len(ids)), objective.mask_token_rate
    if spans is not None:
        _, first, number = np.unique(spans, return_index=True, return_inverse=True)
        value = value[first][number]
    kinds = np.where(value < mask_rate, MASK, np.where(value < mask_rate + objective.random_token_rate, RANDOM, SAME))
    return replace_tokens(ids, kinds, drawn, mask_id)


def mask_tokens(preprocessor):
    """Returns what hiding tokens needs to know about a vocabulary: `mask_id`, `special_ids` and `vocabulary_size`."""
    preprocessor.tokenizer.require([preprocessor.tokenizer.mask_token])
    return {
        "mask_id": preprocessor.mask_id,
        "special_ids": preprocessor.special_ids,
        "vocabulary_size": preprocessor.vocabulary_size,
    }


def word_starts_of(preprocessor, punctuation=False):
    """Returns which ids begin a word, a boolean array [vocabulary_size]: those with a space or a new line in front.

    Byte-level BPE has no space in front of the first word of a text. In rows of several texts, such as the lines of a
    corpus, that word therefore belongs to the word before it, as in RoBERTa's original code.
    """
    tokenizer = preprocessor.tokenizer
    try:
        pieces, starts = tokenizer.token_bytes(), tokenizer.word_starts()
    except NotImplementedError:
        pieces = starts = []
    rule = (
        "Whole words require a tokenizer whose tokens say where a word begins, such as WordPiece, byte-level BPE "
        "and SentencePiece."
    )
    expect(any(starts), rule, tokenizer=tokenizer)
    if punctuation:
        starts = [begins or piece in _PUNCTUATION for begins, piece in zip(starts, pieces)]
    # Some vocabularies have ids below their tokens' ids.
    return np.array([False] * (preprocessor.vocabulary_size - len(starts)) + starts)


def check_kinds(objective):
    """Raises a `ValueError` if the rates of what becomes of hidden tokens exceed 1 together."""
    rule = "`mask_token_rate` and `random_token_rate` must not exceed 1 together."
    rates = {"mask_token_rate": objective.mask_token_rate, "random_token_rate": objective.random_token_rate}
    expect(sum(rates.values()) <= 1, rule, **rates)


def padded_rows(inputs, word_starts=None):
    """Returns the ids of padded rows, an integer array [batch, length], and which are real tokens, a boolean one."""
    missing = [name for name in ("token_ids", "padding_mask") if name not in inputs]
    if missing:
        raise ValueError(f"`inputs` must have `{missing[0]}`. Received: inputs with the keys {list(inputs)}")
    ids, mask = np.asarray(inputs["token_ids"]), np.asarray(inputs["padding_mask"])
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or ids.shape[1] == 0 or mask.shape != ids.shape:
        raise ValueError(
            "`token_ids` and `padding_mask` must be integers [batch, length] for a length of at least 1. "
            f"Received: {ids.dtype} of shape {ids.shape} and {mask.dtype} of shape {mask.shape}"
        )
    if word_starts is not None and (np.ndim(word_starts) != 1 or ids.max(initial=-1) >= len(word_starts)):
        raise ValueError(
            f"`word_starts` must be booleans [vocabulary_size], for ids up to {ids.max(initial=-1)}. "
            f"Received: an array of shape {np.shape(word_starts)}"
        )
    return ids, mask == 1


def as_rows(rows):
    """Returns rows as a list of int32 arrays [tokens]."""
    found = [np.asarray(row) for row in rows]
    for index, row in enumerate(found):
        if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
            raise ValueError(f"Rows must be lists of integers. Received: {rows[index]!r:.100} at position {index}")
    return [row.astype("int32") for row in found]


def padded(rows, length, value=0):
    """Returns rows as an int32 array [rows, length]."""
    found = np.full((len(rows), length), value, "int32")
    for place, row in zip(found, rows):
        place[: len(row)] = row
    return found
