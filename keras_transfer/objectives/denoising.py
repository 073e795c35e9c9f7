"""The objective of BART: a text with noise of several kinds is the source, and the text itself the target."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import FRACTION, TEXT, expect, expects, integer, list_of, number, one_of, optional
from keras_transfer.objectives.draws import as_rows, draw_ids, mask_tokens, word_starts_of
from keras_transfer.objectives.noise import (
    count_insertions,
    find_sentences,
    fit_lengths,
    insert_tokens,
    mask_spans,
    permute_sentences,
    rotate,
)
from keras_transfer.objectives.sequence_objective import SequenceObjective

_SPECIAL = 2  # Rates of insertions and rotations also count the first and the last token of a text, as in BART.
_LEAST = 1e-7  # Lengths of spans that are less likely are not drawn.


@expects(
    mask_rate=FRACTION,
    poisson_mean=optional(number(above=0, most=50)),
    replace_length=one_of(-1, 0, 1),
    random_token_rate=FRACTION,
    insertion_rate=FRACTION,
    rotation_rate=FRACTION,
    permutation_rate=FRACTION,
    stop_tokens=list_of(TEXT),
    seed=integer(0),
)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class Denoising(SequenceObjective):
    """Adds noise to each text, from which the decoder restores it (BART, Lewis et al. 2020, section 2.2).

    Four kinds of noise are applied one after the other: sentences are permuted, spans are hidden, masks are inserted,
    and the text is rotated. The defaults are BART's: all sentences are permuted, and 30% of the words are hidden
    in spans, each of which becomes one mask (text infilling). A span of length 0 inserts a mask. With
    `replace_length=0`, spans are deleted, and with `poisson_mean=None`, each span is a single word.

    `tasks.Seq2SeqLM(encoder, preprocessor, objective=...)` pretrains with it. A source that becomes longer than its
    text, because many masks are inserted, may be truncated by a few tokens.

    Args:
        mask_rate: Float between 0 and 1. Fraction of the words that are hidden. Defaults to `0.3`.
        poisson_mean: Float above 0. Mean of the Poisson distribution from which the lengths of spans are drawn, in
            words. `None` for spans of one word. Defaults to `3.5`.
        replace_length: Integer. `1` replaces a span by one mask, `0` deletes it, and `-1` replaces each of its tokens
            by a mask. Defaults to `1`.
        whole_words: Boolean. Whether spans consist of words. Otherwise, each token counts as a word. Defaults to
            `True`.
        random_token_rate: Float between 0 and 1. Fraction of the spans and insertions that become random tokens instead
            of masks. Defaults to `0.1`.
        insertion_rate: Float between 0 and 1. Number of inserted masks for each token of the text. Defaults to `0.0`.
        rotation_rate: Float between 0 and 1. Fraction of the texts that begin with another of their tokens. Defaults to
            `0.0`.
        permutation_rate: Float between 0 and 1. Fraction of the sentences of a text that are permuted. Defaults to
            `1.0`.
        stop_tokens: Tuple of strings. The tokens that end a sentence. Defaults to `(".",)`.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws other noise.
            Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Example:
    ```python
    objective = keras_transfer.objectives.Denoising(poisson_mean=2.0)
    tokens = {"mask_id": 4, "vocabulary_size": 60, "special_ids": [0, 1, 2, 3, 4], "stop_ids": [5]}
    sources, targets = objective.rewrite([np.array([10, 11, 5, 12, 13, 14, 5])], np.random.default_rng(0), **tokens)
    ```

    Source: https://arxiv.org/abs/1910.13461
    """

    mask_rate: float = 0.3
    _: dataclasses.KW_ONLY
    poisson_mean: float | None = 3.5
    replace_length: int = 1
    whole_words: bool = True
    random_token_rate: float = 0.1
    insertion_rate: float = 0.0
    rotation_rate: float = 0.0
    permutation_rate: float = 1.0
    stop_tokens: tuple[str, ...] = (".",)
    seed: int | None = None

    def __post_init__(self):
        self.stop_tokens = tuple(self.stop_tokens)
        self._probabilities = None if self.poisson_mean is None else poisson_probabilities(self.poisson_mean)

    def rewrite(
        self,
        rows: list,
        random: np.random.Generator,
        mask_id: int,
        vocabulary_size: int,
        special_ids: Any = (),
        stop_ids: Any = (),
        word_starts: Any = None,
    ) -> tuple:
        """Makes sources and targets of texts.

        Args:
            rows: List of integer arrays [tokens], without special tokens.
            random: `np.random.Generator`.
            mask_id: Integer. Id of the mask token.
            vocabulary_size: Integer. Number of ids.
            special_ids: List of integers. Ids that are never drawn as random tokens. Defaults to `()`.
            stop_ids: List of integers. Ids of the tokens that end a sentence. Defaults to `()`, if texts are one
                sentence.
            word_starts: Boolean array [vocabulary_size]. Which tokens begin a word. Defaults to `None`, if all do.

        Returns:
            A tuple of the sources and the targets, lists of integer arrays. The targets are the rows.
        """

        def ids(count):
            return draw_ids(random, count, vocabulary_size, special_ids)

        rows, stop_ids, sources = as_rows(rows), np.asarray(stop_ids, int), []
        for row in rows:
            if self.permutation_rate > 0:
                row = self._permute(row, random, stop_ids)
            if self.mask_rate > 0:
                row = self._mask(row, random, ids, mask_id, word_starts)
            if self.insertion_rate > 0:
                row = self._insert(row, random, ids, mask_id, self.insertion_rate)
            if self.rotation_rate > 0 and random.random() < self.rotation_rate:
                row = rotate(row, random.integers(len(row), endpoint=True))
            sources.append(row)
        return sources, rows

    def _permute(self, row, random, stop_ids):
        ends = find_sentences(np.isin(row, stop_ids))
        order, chosen = np.arange(len(ends)), random.permutation(len(ends))
        chosen = chosen[: math.ceil(len(ends) * self.permutation_rate)]
        order[chosen] = random.permutation(chosen)
        return permute_sentences(row, ends, order)

    def _mask(self, row, random, ids, mask_id, word_starts):
        starts = np.ones(len(row), bool) if word_starts is None else np.asarray(word_starts, bool)[row]
        begins = np.flatnonzero(starts)
        # BART computes with 32-bit floats.
        budget = int(np.ceil(np.float32(len(begins)) * np.float32(self.mask_rate)))
        if budget == 0:
            return row
        lengths, insertions = self.draw_lengths(budget, random)
        places = random.permutation(begins)[: len(lengths)]
        is_random = random.random(len(lengths)) < self.random_token_rate
        drawn = ids(len(row)) if is_random.any() else row
        row = mask_spans(row, starts, places, lengths, is_random, drawn, mask_id, self.replace_length)
        if insertions:
            row = self._insert(row, random, ids, mask_id, insertions / (len(row) + _SPECIAL))
        return row

    def draw_lengths(self, budget: int, random: np.random.Generator) -> tuple:
        """Draws the lengths of the spans of a text.

        Args:
            budget: Integer, at least 1. Number of words in all spans.
            random: `np.random.Generator`.

        Returns:
            A tuple of an integer array, the lengths of the spans, and an integer, the number of spans of length 0.
        """
        if self._probabilities is None:
            return np.ones(budget, int), 0
        lengths = np.zeros(0, int)
        while lengths.sum() < budget:
            drawn = random.choice(len(self._probabilities), budget, p=self._probabilities)
            lengths = np.concatenate([lengths, drawn])
        return fit_lengths(lengths, budget)

    def _insert(self, row, random, ids, mask_id, rate):
        count = count_insertions(len(row) + _SPECIAL, rate)
        values = np.full(count, mask_id)
        drawn = math.ceil(count * self.random_token_rate)
        values[:drawn] = ids(drawn)
        return insert_tokens(row, random.permutation(len(row) + count)[:count], values)

    def tokens(self, preprocessor: Any) -> dict:
        found = super().tokens(preprocessor) | mask_tokens(preprocessor)
        if self.permutation_rate > 0:
            found["stop_ids"] = [preprocessor.token_to_id(token) for token in self.stop_tokens]
            rule = (
                "`stop_tokens` must be tokens of the vocabulary. Use `permutation_rate=0.0` if sentences should "
                "keep their order."
            )
            expect(None not in found["stop_ids"], rule, stop_tokens=self.stop_tokens)
        if self.whole_words and self.mask_rate > 0:
            found["word_starts"] = word_starts_of(preprocessor)
        return found

    def max_lengths(self, length: int) -> tuple[int, int]:
        insertions = count_insertions(length + _SPECIAL, self.insertion_rate)
        if self.mask_rate > 0 and self._probabilities is not None:
            # Spans of length 0 are hardly ever more than twice their mean number, and a few more in short texts.
            spans, empty = length * self.mask_rate / self.poisson_mean, self._probabilities[0]
            insertions += math.ceil(2 * spans * empty) + math.ceil(math.log(0.005) / math.log(empty))
        return length + insertions, length


def poisson_probabilities(mean):
    """Returns the probabilities of 0, 1, 2, ... up to the first, beyond the mean, that is very unlikely."""
    found = [math.exp(-mean)]
    while found[-1] >= _LEAST or len(found) <= mean:
        found.append(found[-1] * mean / len(found))
    return np.array(found) / sum(found)
