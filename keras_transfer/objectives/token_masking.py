"""The objective of masked language models: some tokens are hidden and predicted from all others."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import FRACTION, PART, expect, expects, integer, one_of
from keras_transfer.objectives.draws import (
    check_kinds,
    hide,
    mask_tokens,
    padded_rows,
    word_starts_of,
)
from keras_transfer.objectives.objective import Objective
from keras_transfer.objectives.word_choice import choose_words, ngram_probabilities, span_probabilities, words_of

# The names of the arguments in files of version 0.1.
_NAMES_OF_0_1 = {"fraction": "mask_selection_rate", "masked": "mask_token_rate", "replaced": "random_token_rate"}

UNITS = ("tokens", "words", "ngrams", "spans")
_MAX_WORDS = {"words": 1, "ngrams": 3, "spans": 10}


@expects(
    mask_selection_rate=PART,
    mask_token_rate=FRACTION,
    random_token_rate=FRACTION,
    units=one_of(*UNITS),
    max_words=integer(1),
    seed=integer(0),
)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class TokenMasking(Objective):
    """Hides some tokens of each text, which a masked language model predicts (Devlin et al. 2019, section 3.1).

    A fraction of the real tokens of a text that are not special is chosen, but at least one token. Most of the chosen
    tokens become the mask token, some become a random token that is not special, and the others do not change.

    With `units="words"`, all tokens of a word are chosen together (whole word masking), which makes the task harder for
    the same number of tokens. N-grams and spans, which consist of whole words, make it harder still. A word that is
    longer than what is left of the fraction is passed over, so a short text of long words may have no chosen token.

    Args:
        mask_selection_rate: Float between 0 and 1. Fraction of the tokens that are chosen. Defaults to `0.15`.
        mask_token_rate: Float between 0 and 1. Fraction of the chosen tokens that become the mask token. Defaults to
            `0.8`.
        random_token_rate: Float between 0 and 1. Fraction of the chosen tokens that become a random token. Defaults to
            `0.1`.
        units: String. What is chosen at once. Defaults to `"tokens"`.

            - `"tokens"`: single tokens (BERT);
            - `"words"`: the tokens of a word (BERT's whole word masking). With byte-level BPE, the first word of a line
              of a corpus has no space in front, and belongs to the word before it;
            - `"ngrams"`: one to `max_words` words, `n` words with a probability proportional to `1 / n` (ALBERT, Lan et
              al. 2020). Those that overlap with one that is chosen already are passed over;
            - `"spans"`: one to `max_words` words, their number from a geometric distribution with a success probability
              of 0.2 (SpanBERT, Joshi et al. 2020). All tokens of a span become masks, random tokens, or remain.
        max_words: Integer. Largest number of words of an n-gram or span. Defaults to `None`, which is 3 for n-grams and
            10 for spans.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws different
            tokens. Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Call arguments:
        - `inputs`: Dict of integer arrays of shape `[batch, length]`: `token_ids`, `padding_mask` (1 for a real token)
          and possibly others.
        - `random`: `np.random.Generator`.
        - `mask_id`: Integer. Id of the mask token.
        - `special_ids`: List of integers. Ids that are neither chosen nor drawn.
        - `vocabulary_size`: Integer. Number of ids.
        - `word_starts`: Boolean array [vocabulary_size]. Which tokens begin a word. A token after a special one always
          does. Defaults to `None`, if all do.

    Returns:
        A tuple of the inputs and the targets. The inputs have changed `token_ids`, and `mask_positions`, the positions
        of the chosen tokens in order. The targets are the original ids at these positions. `mask_positions` and the
        targets have the shape `[batch, places]`, int32, and are -1 at places that a text does not use. The number of
        places depends on `length` only.

    Raises:
        ValueError: If `mask_token_rate` and `random_token_rate` together exceed 1, or if `max_words` is not a positive
            integer or does not apply to `units`. In a call, if the inputs have other shapes.

    Example:
    ```python
    objective = keras_transfer.objectives.TokenMasking(seed=0)
    inputs = {"token_ids": np.array([[2, 7, 8, 9, 3, 0]]), "padding_mask": np.array([[1, 1, 1, 1, 1, 0]])}
    tokens = {"mask_id": 4, "special_ids": [0, 1, 2, 3, 4], "vocabulary_size": 10}
    inputs, targets = objective(inputs, np.random.default_rng(0), **tokens)
    ```

    Source: https://arxiv.org/abs/1810.04805, https://arxiv.org/abs/1909.11942 and https://arxiv.org/abs/1907.10529.
    """

    made_inputs = ("mask_positions",)

    mask_selection_rate: float = 0.15
    _: dataclasses.KW_ONLY
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1
    units: str = "tokens"
    max_words: int | None = None
    seed: int | None = None

    def __post_init__(self):
        check_kinds(self)
        fits = self.max_words is None or self.units in ("ngrams", "spans")
        rule = "`max_words` requires `units='ngrams'` or `units='spans'`."
        expect(fits, rule, max_words=self.max_words, units=self.units)

    def __call__(self, inputs, random, mask_id, special_ids, vocabulary_size, word_starts=None):
        ids, real = padded_rows(inputs, word_starts)
        special_ids = np.unique(special_ids)
        allowed = real & ~np.isin(ids, special_ids)
        length, available = ids.shape[1], allowed.sum(axis=1)
        places = int(np.ceil(self.mask_selection_rate * length))
        count = np.minimum(np.maximum(np.round(self.mask_selection_rate * available), 1), available)
        if self.units == "tokens":
            order = np.argsort(np.where(allowed, random.random(ids.shape), 2.0), axis=1)[:, :places]
            order = np.pad(order, [(0, 0), (0, places - order.shape[1])])
            positions = np.sort(np.where(np.arange(places) < count[:, None], order, length), axis=1)
            spans = None
        else:
            starts = np.ones(ids.shape, bool) if word_starts is None else np.asarray(word_starts, bool)[ids]
            positions, spans = self._choose(allowed, starts, count, places, random)
        row, place = np.nonzero(positions < length)
        chosen = positions[row, place]
        spans = None if spans is None else spans[row, place]
        positions[positions == length] = -1
        targets = np.full_like(positions, -1)
        targets[row, place] = ids[row, chosen]

        ids = ids.copy()
        ids[row, chosen] = hide(ids[row, chosen], random, self, mask_id, vocabulary_size, special_ids, spans)
        inputs = {**inputs, "token_ids": ids.astype("int32"), "mask_positions": positions.astype("int32")}
        return inputs, targets.astype("int32")

    def draw_lengths(self, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
        """Draws the lengths of n-grams or spans.

        Args:
            shape: Tuple of integers. Shape of the result.
            random: `np.random.Generator`.

        Returns:
            An integer array of numbers of words.
        """
        most = self.max_words or _MAX_WORDS[self.units]
        probabilities = (span_probabilities if self.units == "spans" else ngram_probabilities)(most)
        return np.searchsorted(np.cumsum(probabilities)[:-1], random.random(shape), side="right") + 1

    def _choose(self, allowed, starts, count, places, random):
        """Returns the positions of chosen words in order, [batch, places], `length` at unused places, and their spans.

        The spans are None unless all tokens of one become the same. Otherwise, they are numbers [batch, places].
        """
        (size, length), joins = allowed.shape, self.units == "spans"
        draws, lengths = random.random(allowed.shape), self.draw_lengths(allowed.shape, random)
        positions, numbers = np.full((size, places), length), np.zeros((size, places), int)
        for row in range(size):
            words, of_token = words_of(allowed[row], starts[row])
            # A span begins with the word of any token, an n-gram with any word.
            first = of_token if joins else np.arange(len(words))
            order = first[np.argsort(draws[row, : len(first)])]
            found = choose_words(words, order.tolist(), lengths[row].tolist(), int(count[row]), joins)
            found = np.array(found, int)[of_token]
            chosen = np.flatnonzero(allowed[row])[found >= 0]
            positions[row, : len(chosen)] = chosen
            numbers[row, : len(chosen)] = found[found >= 0] + row * length
        return positions, numbers if joins else None

    def tokens(self, preprocessor: Any) -> dict:
        found = mask_tokens(preprocessor)
        return found if self.units == "tokens" else {**found, "word_starts": word_starts_of(preprocessor)}

    @classmethod
    def from_config(cls, config):
        return cls(**{_NAMES_OF_0_1.get(name, name): value for name, value in config.items()})
