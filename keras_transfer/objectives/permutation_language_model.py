"""The objective of XLNet: tokens are predicted one after the other in a random order."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import PART, expects, integer, one_of
from keras_transfer.objectives.draws import padded_rows, word_starts_of
from keras_transfer.objectives.objective import Objective
from keras_transfer.objectives.word_choice import ngram_probabilities

STARTS = ("words", "tokens")


@expects(
    mask_selection_rate=PART,
    max_span_length=integer(1),
    starts=one_of(*STARTS),
    reuse_length=integer(1),
    permutation_size=integer(1),
    seed=integer(0),
)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class PermutationLanguageModel(Objective):
    """Draws the order in which the tokens of each text are predicted, and the last ones of it as targets (XLNet).

    The model's input is the text as it is, without a mask token. The tokens that are not targets are given. A target is
    predicted from these, and from the targets that precede it in a random order, on both sides of it. It sees neither
    itself nor the targets that follow. Special tokens have places in the order too, but are no targets.

    The targets are spans of one to `max_span_length` tokens, `n` tokens with a probability proportional to `1 / n`.
    Each span is anywhere in a context that is `1 / mask_selection_rate` times as long. Single tokens are added
    until the fraction is reached. At least one token of a text is given.

    Args:
        mask_selection_rate: Float between 0 and 1. Fraction of the tokens that are targets (`mask_beta / mask_alpha` in
            the original code). Defaults to `1 / 6`.
        max_span_length: Integer. Largest number of tokens of a span. Defaults to `5`.
        starts: String, `"words"` or `"tokens"`. Where spans begin. Words begin as the tokenizer says, and with each
            punctuation mark. Defaults to `"words"`.
        reuse_length: Integer. Number of tokens at the start of a text that see none of those behind them. The others
            see all of them. Defaults to `None`, for no such tokens. The original uses half of the length, since its
            pretraining reads these tokens again as a memory.
        permutation_size: Integer. Number of neighboring tokens in one permutation. The next ones follow in the same
            permutation, and those behind `reuse_length` have their own. Defaults to `None`, for one permutation of all
            tokens.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws different
            targets. Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Call arguments:
        - `inputs`: Dict of integer arrays of shape `[batch, length]`: `token_ids`, `padding_mask` (1 for a real token)
          and possibly others.
        - `random`: `np.random.Generator`.
        - `special_ids`: List of integers. Ids that are not predicted.
        - `word_starts`: Boolean array [vocabulary_size]. With which tokens a span may begin. Defaults to `None`, with
          all.

    Returns:
        A tuple of the inputs and the targets. The inputs have two more arrays, int32:

        - `factorization_order`, `[batch, length]`. A token sees those with a lower number. Tokens that are not
          predicted, whose numbers are equal, also see each other.
        - `mask_positions`, `[batch, places]`. The positions of the targets, in ascending order.

        The targets are the ids at these positions, int32. Both are -1 at places that a text does not use. The number of
        places depends on `length` only.

    Raises:
        ValueError: If the inputs have other shapes.

    Example:
    ```python
    objective = keras_transfer.objectives.PermutationLanguageModel(1 / 3)
    inputs = {"token_ids": np.array([[5, 6, 7, 8, 9, 3]]), "padding_mask": np.ones((1, 6), "int32")}
    inputs, targets = objective(inputs, np.random.default_rng(0), special_ids=[0, 1, 2, 3, 4])
    ```

    Source: https://arxiv.org/abs/1906.08237, https://github.com/zihangdai/xlnet
    """

    made_inputs = ("factorization_order", "mask_positions")

    mask_selection_rate: float = 1 / 6
    _: dataclasses.KW_ONLY
    max_span_length: int = 5
    starts: str = "words"
    reuse_length: int | None = None
    permutation_size: int | None = None
    seed: int | None = None

    def __call__(self, inputs, random, special_ids, word_starts=None):
        ids, real = padded_rows(inputs, word_starts)
        allowed = real & ~np.isin(ids, np.asarray(special_ids, int))
        starts = np.ones(ids.shape, bool) if word_starts is None else np.asarray(word_starts, bool)[ids]
        length = ids.shape[1]
        cut = min(self.reuse_length or length, length)
        parts = [slice(first, end) for first, end in ((0, cut), (cut, length)) if first < end]
        chosen = np.concatenate([self._choose(allowed[:, part], starts[:, part], random) for part in parts], axis=1)
        order = order_tokens(
            random.random(ids.shape), allowed & ~chosen, real, self.reuse_length, self.permutation_size
        )

        places = sum(int(np.ceil(self.mask_selection_rate * (part.stop - part.start))) for part in parts)
        positions = np.full((len(ids), places), -1, "int32")
        row, position = np.nonzero(chosen)
        place = (np.cumsum(chosen, axis=1) - 1)[row, position]
        positions[row, place] = position
        targets = np.full_like(positions, -1)
        targets[row, place] = ids[row, position]
        made = {"factorization_order": order.astype("int32"), "mask_positions": positions}
        return {**inputs, **made}, targets

    def draw_lengths(self, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
        """Draws the lengths of spans.

        Args:
            shape: Tuple of integers. Shape of the result.
            random: `np.random.Generator`.

        Returns:
            An integer array of numbers of tokens.
        """
        limits = np.cumsum(ngram_probabilities(self.max_span_length))[:-1]
        return np.searchsorted(limits, random.random(shape), side="right") + 1

    def _choose(self, allowed, starts, random):
        """Returns which tokens are targets, a boolean array [batch, length]."""
        rate, (size, length) = self.mask_selection_rate, allowed.shape
        available = allowed.sum(axis=1)
        counts = np.minimum(np.maximum(np.round(rate * available), 1), np.maximum(available - 1, 0)).astype(int)
        spans = (size, length // (1 + round(1 / rate)) + 1)  # A span has at least its context and one token.
        lengths, before = self.draw_lengths(spans, random).tolist(), random.random(spans).tolist()
        orders = np.argsort(random.random(allowed.shape), axis=1)
        rows = zip(allowed, starts, lengths, before, orders, counts.tolist())
        chosen = [choose_spans(*row, rate, count) for *row, count in rows]
        return np.array(chosen, bool).reshape(allowed.shape)

    def tokens(self, preprocessor: Any) -> dict:
        found = {"special_ids": preprocessor.special_ids}
        return found if self.starts == "tokens" else {**found, "word_starts": word_starts_of(preprocessor, True)}


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
        reuse_length: Integer. Number of tokens that see none of those behind them.
        permutation_size: Integer. Largest number of tokens in one permutation, which is then the same for the tokens
            that follow.
    """
    length = draws.shape[1]
    place = np.arange(length)
    is_second = place >= (reuse_length or length)
    first = np.where(is_second, reuse_length or 0, 0)
    block, within = np.divmod(place - first, permutation_size or length)
    block += is_second * length
    rank = np.argsort(np.argsort(block + draws[:, first + within], axis=1), axis=1)
    return np.where(real, np.where(given, first, rank + 1) + is_second, 0)
