"""Beam search, which finds continuations that are most likely as a whole."""

from collections.abc import Mapping
from typing import Any

from keras import ops

from keras_transfer.core.expect import expect, expects, integer, number, one_of
from keras_transfer.generation.decoder import extend, take_rows
from keras_transfer.generation.sampler import Sampler, register_name

# The score of beams that do not count, which a token that the constraints exclude does not reach.
NEVER = -1e9


@register_name("beam")
class BeamSearch(Sampler):
    """Keeps the `num_beams` most likely continuations at each step, and returns the best ones that ended.

    The score of a continuation is its log-likelihood divided by `tokens ** length_penalty`. The results equal those of
    Transformers. `num_sequences` of `generate` returns several beams, the best first.

    Args:
        num_beams: Integer, at least 2. Number of continuations that are kept. Defaults to `4`.
        length_penalty: Float. Above 0, longer continuations are preferred, below 0 shorter ones. Defaults to `1.0`.
        early_stopping: `True`, `False` or `"never"`. With `True`, the search ends as soon as `num_beams` continuations
            have ended. With `False`, it ends when no other is likely to be better: when the best score that goes on,
            at its present length, is worse than all of theirs. With `"never"`, it ends when no other can be better,
            which compares at the length at which the score could be best. Defaults to `False`.

    Example:
    ```python
    keras_transfer.generation.BeamSearch(num_beams=5, length_penalty=0.6)
    ```

    Source: https://arxiv.org/abs/1609.08144, section 7.
    """

    streams = False

    @expects(num_beams=integer(2), length_penalty=number(), early_stopping=one_of(True, False, "never"))
    def __init__(self, num_beams: int = 4, *, length_penalty: float = 1.0, early_stopping: bool | str = False):
        self.num_beams = num_beams
        self.length_penalty = length_penalty
        self.early_stopping = early_stopping

    def num_rows(self, num_sequences: int) -> int:
        rule = f"`num_sequences` must be at most {self.num_beams}, the number of beams."
        expect(num_sequences <= self.num_beams, rule, num_sequences=num_sequences)
        return self.num_beams

    def start(self, decoder: Any, given: Mapping, rows: int) -> dict:
        cache = decoder.encode_prompts(given, rows, decoder.length - 1)[1]
        limit = ops.reshape(given["limit"], (-1, rows))
        tokens = ops.repeat(extend(given["token_ids"], decoder.room)[:, None], rows, axis=1)
        score = ops.zeros_like(limit, dtype="float32")
        return {
            "column": ops.convert_to_tensor(decoder.length, "int32"),
            "cache": cache,
            "tokens": tokens,  # [prompts, beams, room]
            "score": score + ops.where(ops.arange(rows) > 0, NEVER, 0.0),  # The beams are equal, so only one counts.
            "stop_state": decoder.first_stop_state(limit),
            "ended_tokens": tokens,
            "ended_score": score + NEVER,
            "end": ops.zeros_like(limit) + decoder.length,
            "has_ended": ops.zeros_like(limit, dtype="bool"),
            "open": limit[:, 0] > decoder.length,  # [prompts]
        }

    def advance(self, decoder: Any, given: Mapping, state: Mapping) -> dict:
        beams, column, tokens = self.num_beams, state["column"], state["tokens"]
        prompts, _, room = ops.shape(tokens)
        flat, first = ops.reshape(tokens, (-1, room)), given["first"]
        last = ops.take(flat, column - 1, axis=1)
        _, logits, cache = decoder.step(last, state["cache"], column - 1, first)
        scores = decoder.constrain(ops.log_softmax(logits), flat, column, given)

        # So many candidates that enough of them go on, even if each beam's best ones are all of the end tokens.
        vocabulary = logits.shape[-1]
        count = beams * min(max(2, 1 + len(decoder.end_ids)), vocabulary)
        scores = ops.reshape(scores, (-1, beams, vocabulary)) + state["score"][:, :, None]
        score, index = ops.top_k(ops.reshape(scores, (-1, beams * vocabulary)), count)
        index = ops.cast(index, "int32")
        parent, chosen = index // vocabulary, index % vocabulary
        here = ops.arange(room) == column
        tokens = ops.where(here, chosen[:, :, None], _take(tokens, parent))
        limit = ops.reshape(given["limit"], (-1, beams))[:, :1]
        ended, stop_state = decoder.ends(chosen, _take(state["stop_state"], parent), column, limit)
        penalty = ops.power(ops.cast(column + 1 - decoder.length, "float32"), self.length_penalty)

        # The beams that go on.
        running, kept = ops.top_k(score + ops.where(ended, NEVER, 0.0), beams)
        rows = ops.reshape(ops.arange(prompts)[:, None] * beams + _take(parent, kept), (-1,))

        # The continuations that ended. Only those among the best `num_beams` candidates count.
        is_new = ops.logical_and(ended, ops.arange(count) < beams)
        full = ops.all(state["has_ended"], axis=1) if self.early_stopping is True else ops.zeros_like(state["open"])
        is_new = ops.logical_and(is_new, ops.logical_and(state["open"], ops.logical_not(full))[:, None])
        ended_score = ops.concatenate([state["ended_score"], score / penalty + ops.where(is_new, 0.0, NEVER)], axis=1)
        ended_score, best = ops.top_k(ended_score, beams)

        def merge(old, new):
            return _take(ops.concatenate([old, new], axis=1), best)

        has_ended = merge(state["has_ended"], is_new)
        if self.early_stopping == "never" and self.length_penalty > 0:
            longest = ops.maximum(ops.cast(limit - decoder.length, "float32"), 1.0)
            penalty = ops.power(longest, self.length_penalty)
        possible = running[:, :1] / penalty
        worst = ops.where(has_ended, ops.min(ended_score, axis=1, keepdims=True), NEVER)
        goes_on = ops.logical_and(ops.any(possible > worst, axis=1), ops.logical_not(ops.all(ended, axis=1)))
        if self.early_stopping is True:
            goes_on = ops.logical_and(goes_on, ops.logical_not(ops.all(has_ended, axis=1)))
        return {
            "column": column + 1,
            "cache": take_rows(cache, rows),
            "tokens": _take(tokens, kept),
            "score": running,
            "stop_state": _take(stop_state, kept),
            "ended_tokens": merge(state["ended_tokens"], tokens),
            "ended_score": ended_score,
            "end": merge(state["end"], ops.zeros_like(chosen) + column + 1),
            "has_ended": has_ended,
            "open": ops.logical_and(state["open"], goes_on),
        }

    def goes_on(self, state: Mapping) -> Any:
        return ops.any(state["open"])

    def result(self, state: Mapping, num_sequences: int) -> dict:
        tokens, end = state["ended_tokens"][:, :num_sequences], state["end"][:, :num_sequences]
        return {"tokens": ops.reshape(tokens, (-1, ops.shape(tokens)[2])), "end": ops.reshape(end, (-1,))}


def _take(values, index):
    """Returns `values` `[prompts, beams, ...]` of the beams `index` `[prompts, kept]` of each prompt."""
    index = ops.cast(index, "int32")
    if len(values.shape) == 2:
        return ops.take_along_axis(values, index, axis=1)
    return ops.take_along_axis(values, index[:, :, None], axis=1)
