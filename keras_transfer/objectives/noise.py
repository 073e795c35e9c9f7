"""What noise does to a row of token ids, given all that is drawn at random: pure functions of NumPy arrays."""

import math

import numpy as np

MASK, SAME, RANDOM = range(3)  # What becomes of a token that is hidden.


# === T5 ===


def corrupt_spans(row, mask, sentinel_ids):
    """Returns the source and the target of a row, in which sentinels stand for spans of tokens.

    In the source, a sentinel stands for each span of noise, and in the target for each span of other tokens.

    Args:
        mask: Boolean array [tokens]. Which tokens are noise.
    """
    mask = np.asarray(mask, bool)
    return _replace_spans(row, mask, sentinel_ids), _replace_spans(row, ~mask, sentinel_ids)


def _replace_spans(row, mask, sentinel_ids):
    first = mask & ~np.concatenate([[False], mask[:-1]]) if len(mask) else mask
    if (count := first.sum()) > len(sentinel_ids):
        raise ValueError(
            f"Each of the {count} spans in a text of {len(row)} tokens needs a sentinel of its own. Use shorter texts, "
            f"a lower `noise_density` or a greater `mean_span_length`. Received: {len(sentinel_ids)} sentinels"
        )
    changed = np.array(row)
    changed[first] = np.asarray(sentinel_ids, changed.dtype)[:count]
    return changed[first | ~mask]


# === BART ===


def find_sentences(stops):
    """Returns where the sentences of a row end, an integer array [sentences], given which tokens are stops [tokens].

    A sentence ends after a stop whose predecessor is none. The last token counts as a stop.
    """
    stops = np.array(stops, bool)
    stops[-1:] = True
    return np.flatnonzero(stops & ~np.concatenate([[False], stops])[:-1]) + 1


def permute_sentences(row, ends, order):
    """Returns a row with its sentences in another order. Tokens after the last sentence stay where they are.

    Args:
        ends: Integer array [sentences]. Where the sentences end.
    """
    sentences = np.split(row, ends)
    return np.concatenate([*(sentences[index] for index in order), sentences[-1]])


def fit_lengths(lengths, budget):
    """Returns the lengths of the spans that hide `budget` words, and how many masks are inserted.

    Args:
        lengths: Integer array. Drawn lengths, whose sum is at least `budget`. Those of length 0 become insertions.
    """
    total = np.cumsum(lengths)
    used = np.searchsorted(total, budget) + 1
    lengths = np.array(lengths[:used])
    lengths[-1] -= total[used - 1] - budget
    return lengths[lengths > 0], int((lengths == 0).sum())


def mask_spans(row, word_starts, places, lengths, is_random, random_ids, mask_id, replace_length):
    """Returns a row in which spans of words are hidden. Spans may overlap, and end at the end of the row.

    Args:
        word_starts: Boolean array [tokens]. Which tokens begin a word.
        places: Integer array [spans]. Where each span begins, at the first token of a word.
        lengths: Integer array [spans]. Number of words of each span.
        is_random: Boolean array [spans]. Which spans become random tokens instead of masks.
        replace_length: 1 for one mask for each span, 0 for none, -1 for one mask for each token of a span.
    """
    begins = np.append(np.flatnonzero(word_starts), len(row))
    index = np.searchsorted(begins, places)
    ends = begins[np.minimum(index + lengths, len(begins) - 1)]
    changed, kept = np.array(row), np.ones(len(row), bool)
    for place, end, random in sorted(zip(places.tolist(), ends.tolist(), is_random.tolist()), reverse=True):
        # Where spans overlap, the one that begins first decides.
        first_kept = place + (replace_length == 1)
        written = end if replace_length == -1 else place + 1
        changed[place:written] = random_ids[place:written] if random else mask_id
        if replace_length != -1:
            kept[first_kept:end] = False
    return changed[kept]


def count_insertions(length, rate):
    """Returns how many tokens are inserted into a row of `length` tokens, special tokens included."""
    return math.ceil(length * rate)


def insert_tokens(row, places, values):
    """Returns a row with further tokens, the values [insertions] at these places [insertions] of the new row."""
    changed, given = np.empty(len(row) + len(places), np.asarray(row).dtype), np.ones(len(row) + len(places), bool)
    given[places] = False
    changed[places], changed[given] = values, row
    return changed


def rotate(row, offset):
    """Returns a row that begins with its token at `offset` and ends with the token before it."""
    return np.concatenate([row[offset:], row[:offset]])


# === BERT, MASS and XLM ===


def replace_tokens(ids, kinds, random_ids, mask_id):
    """Returns what becomes of hidden tokens [tokens] of kinds `MASK`, `SAME` and `RANDOM`."""
    return np.where(kinds == MASK, mask_id, np.where(kinds == RANDOM, random_ids, ids))
