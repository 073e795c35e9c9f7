"""Constraints on generated text: repetitions and bad words to avoid, a minimum length, and forced tokens."""

import dataclasses

import numpy as np
from keras import ops

from keras_transfer.core.expect import POSITIVE, expect, expects, integer

# Softmax makes it exactly 0, and sums of it are finite. Beams that do not count yet have a larger score.
NEVER = -(2.0**100)


@expects(repetition_penalty=POSITIVE, no_repeat_ngram=integer(0), min_length=integer(0), min_new_tokens=integer(0))
@dataclasses.dataclass(frozen=True)
class Constraints:
    """Changes the scores of the next token, given the tokens before it, including the prompt.

    Args:
        repetition_penalty: Float greater than 0. Factor that makes tokens less likely that have already occurred:
            positive scores are divided by it, negative scores are multiplied by it (Keskar et al. 2019).
        no_repeat_ngram: Integer. Length of sequences of tokens that must not occur twice (Paulus et al. 2018).
        bad_words: Tuple of tuples of token ids. Sequences that must not occur.
        min_length: Integer. Number of tokens, including the prompt's, before which no text ends with an end token.
        min_new_tokens: Integer. The same for the number of tokens after the prompt.
        forced_first: Integer. The token after the first one of a text.
        forced_last: Tuple of integers. Tokens of which one must be the last that a row may use.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    bad_words: tuple = ()
    min_length: int = 0
    min_new_tokens: int = 0
    forced_first: int | None = None
    forced_last: tuple = ()

    def __post_init__(self):
        expect(all(map(len, self.bad_words)), "`bad_words` must not contain empty words.", bad_words=self.bad_words)

    def apply(self, scores, tokens, column, first, limit=None, length=0, end_ids=()):
        """Returns the scores `[rows, vocabulary]` of the token at `column`.

        Args:
            scores: Float tensor of shape `[rows, vocabulary]`.
            tokens: Integer tensor of shape `[rows, room]`.
            column: Scalar tensor. The place of the token to be chosen.
            first: Integer tensor of shape `[rows]`. The place of each row's first token.
            limit: Integer tensor of shape `[rows]`. Number of places that each row may use, for `forced_last`.
            length: Integer or scalar tensor. The place of the first token after the prompts, for `min_new_tokens`.
        """
        place = ops.arange(ops.shape(tokens)[1])[None]
        real = ops.logical_and(place >= first[:, None], place < column)
        if self.repetition_penalty != 1.0:
            found = ops.take_along_axis(scores, tokens, axis=1)
            found = ops.where(found < 0, found * self.repetition_penalty, found / self.repetition_penalty)
            scores = _put(scores, tokens, real, found)
        if self.no_repeat_ngram:
            before = self.no_repeat_ngram - 1
            same = ops.logical_and(place >= first[:, None] + before, place < column)
            for back in range(1, before + 1):
                same = ops.logical_and(same, _back(tokens, back) == _at(tokens, column - back)[:, None])
            scores = _put(scores, tokens, same, NEVER)
        alone = [word[0] for word in self.bad_words if len(word) == 1]
        if alone:
            scores = ops.where(_among(alone, scores), NEVER, scores)
        for word in self.bad_words:
            if len(word) == 1:
                continue
            banned = column - first >= len(word) - 1
            for back, token in enumerate(reversed(word[:-1]), 1):
                banned = ops.logical_and(banned, _at(tokens, column - back) == token)
            is_last = ops.arange(scores.shape[-1])[None] == word[-1]
            scores = ops.where(ops.logical_and(banned[:, None], is_last), NEVER, scores)
        if end_ids and (self.min_length or self.min_new_tokens):
            short = ops.logical_or(column - first < self.min_length, column - length < self.min_new_tokens)
            scores = ops.where(ops.logical_and(short[:, None], _among(end_ids, scores)), NEVER, scores)
        if self.forced_first is not None:
            scores = _only(scores, column - first == 1, [self.forced_first])
        if self.forced_last:
            scores = _only(scores, column + 1 >= limit, self.forced_last)
        return scores


def _among(token_ids, scores):
    """Returns which tokens of the vocabulary are among the given ones, as a boolean array `[1, vocabulary]`."""
    return np.isin(np.arange(scores.shape[-1]), token_ids)[None]


def _only(scores, rows, token_ids):
    """Returns scores of 0 for the given tokens and of `NEVER` for all others, in the rows for which `rows` is true."""
    forced = np.where(_among(token_ids, scores), 0.0, NEVER).astype("float32")
    return ops.where(rows[:, None], forced, scores)


def _at(tokens, place):
    """Returns the tokens at a place, or at the first place if `place` is negative."""
    return ops.take(tokens, ops.maximum(place, 0), axis=1)


def _back(tokens, count):
    """Returns the tokens `[rows, room]` moved to the right by `count` places."""
    return ops.pad(tokens, [(0, 0), (count, 0)])[:, : ops.shape(tokens)[1]]


def _put(scores, tokens, where, values):
    """Returns scores in which the tokens `[rows, room]` for which `where` is true have the given `values`."""
    vocabulary = scores.shape[-1]
    # All others are written to a column that is cut off afterwards.
    ids = ops.where(where, tokens, vocabulary)
    values = ops.broadcast_to(ops.cast(values, scores.dtype), ops.shape(ids))
    rows = ops.broadcast_to(ops.arange(ops.shape(ids)[0])[:, None], ops.shape(ids))
    indices = ops.stack([ops.reshape(rows, (-1,)), ops.reshape(ids, (-1,))], axis=1)
    scores = ops.pad(scores, [(0, 0), (0, 1)])
    return ops.scatter_update(scores, indices, ops.reshape(values, (-1,)))[:, :vocabulary]
