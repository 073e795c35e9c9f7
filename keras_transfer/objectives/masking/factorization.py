"""Spans to predict, and the order in which a text is factorized, given all that is drawn: functions of NumPy arrays."""

import numpy as np


def choose_spans(allowed, starts, lengths, before, order, rate, count):
    """Returns which tokens of a row are predicted, a boolean array [tokens]: spans, and then single tokens.

    Each span is somewhere within a context of its own, which is as many times longer as `rate` says.

    Args:
        allowed: Boolean array [tokens]. Which tokens may be predicted.
        starts: Boolean array [tokens]. Where a span may begin.
        lengths: List of integers. Number of tokens of each span.
        before: List of floats from 0 to 1. Where each span is in its context.
        order: Integer array [tokens]. The order in which single tokens are added.
        rate: Float. Length of a span divided by its context's length.
        count: Integer, at most the number of tokens that are allowed. Number of tokens that are predicted.
    """
    size = len(allowed)
    chosen = np.zeros(size, bool)
    next_start = np.minimum.accumulate(np.where(starts, np.arange(size), size)[::-1])[::-1].tolist()
    begin, left = 0, count
    for length, place in zip(lengths, before):
        length = min(length, left)
        context = round(length / rate)
        skipped = int(place * context)
        if left == 0 or begin + skipped >= size:
            break
        first = next_start[begin + skipped]
        end = first + length
        if end >= size:
            break
        chosen[first:end] = allowed[first:end]
        left -= int(chosen[first:end].sum())
        begin = end + context - skipped
    chosen[order[allowed[order] & ~chosen[order]][:left]] = True
    return chosen


def order_tokens(draws, given, real, reuse_length=None, permutation_size=None):
    """Returns the factorization order, an integer array [batch, tokens]: a token sees those with a lower number.

    Tokens that are not predicted come first. Those with the same number see each other.

    Args:
        draws: Float array [batch, tokens] of numbers from 0 to 1. In their order, the other tokens are predicted. Only
            those of the first permutation count, and of the first one after `reuse_length`.
        given: Boolean array [batch, tokens]. Which tokens are given, so that all tokens see them.
        real: Boolean array [batch, tokens]. Which tokens are no padding.
        reuse_length: Integer. Number of tokens that see none of those behind them. Defaults to `None`, for none.
        permutation_size: Integer. Largest number of tokens in one permutation, which is then the same for the tokens
            that follow. Defaults to `None`, for any number.
    """
    length = draws.shape[1]
    place = np.arange(length)
    is_second = place >= (reuse_length or length)
    first = np.where(is_second, reuse_length or 0, 0)
    block, within = np.divmod(place - first, permutation_size or length)
    block += is_second * length
    rank = np.argsort(np.argsort(block + draws[:, first + within], axis=1), axis=1)
    return np.where(real, np.where(given, first, rank + 1) + is_second, 0)
