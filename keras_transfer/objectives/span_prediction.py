"""The objective of MASS: a span of a text is hidden from the encoder, and the decoder writes it."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import FRACTION, expects, integer, number
from keras_transfer.objectives.draws import as_rows, check_kinds, hide, mask_tokens
from keras_transfer.objectives.sequence_objective import SequenceObjective


@expects(
    mask_rate=number(above=0, most=1),
    block_length=integer(1),
    mask_token_rate=FRACTION,
    random_token_rate=FRACTION,
    seed=integer(0),
)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class SpanPrediction(SequenceObjective):
    """Hides a span of each text, which the decoder writes (MASS, Song et al. 2019).

    The encoder's input is the text, in which most tokens of the span are masks. The decoder reads, at the positions of
    the span, the tokens before those that it predicts. The first token of a text is never hidden.

    This is the algorithm of MASS for summaries, in which all places of a span are equally likely. (That for
    unsupervised translation puts 40% of the spans at one of the ends.) The decoder must read positions: create the
    encoder-decoder of a `tasks.Seq2SeqLM` with `further_inputs=["decoder_positions"]`.

    Args:
        mask_rate: Float between 0 and 1. Fraction of the tokens that are hidden, rounded down. Defaults to `0.5`.
        block_length: Integer. Number of tokens of a block. Each block has a span of its own. Defaults to `None`, for
            one span in each text.
        mask_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become the mask token. Defaults to
            `0.8`.
        random_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become a random token. The others
            do not change. Defaults to `0.1`.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws different spans.
            Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Example:
    ```python
    objective = keras_transfer.objectives.SpanPrediction()
    tokens = {"mask_id": 4, "vocabulary_size": 60, "special_ids": [0, 1, 2, 3, 4]}
    sources, previous, targets, positions = objective.rewrite([np.arange(10, 21)], np.random.default_rng(0), **tokens)
    ```

    Source: https://arxiv.org/abs/1905.02450
    """

    made_inputs = (*SequenceObjective.made_inputs, "decoder_positions")

    mask_rate: float = 0.5
    _: dataclasses.KW_ONLY
    block_length: int | None = None
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1
    seed: int | None = None

    def __post_init__(self):
        check_kinds(self)

    def draw(self, length: int, random: np.random.Generator) -> np.ndarray:
        """Draws the tokens of a text that are hidden.

        Args:
            length: Integer. Number of tokens.
            random: `np.random.Generator`.

        Returns:
            An integer array of positions in ascending order.
        """
        found = [np.zeros(0, int)]
        for first, size, count in self._blocks(length):
            found.append(first + random.integers(size - count, endpoint=True) + np.arange(count))
        return np.concatenate(found)

    def _blocks(self, length):
        """Returns `(first, size, number of hidden tokens)` for each block of a text."""
        block = self.block_length or max(length, 1)
        sizes = [(first, min(block, length - first)) for first in range(1, length, block)]
        return [(first, size, int(size * self.mask_rate)) for first, size in sizes]

    def tokens(self, preprocessor: Any) -> dict:
        return {**super().tokens(preprocessor), **mask_tokens(preprocessor)}

    def max_lengths(self, length: int) -> tuple[int, int]:
        return length, sum(count for *_, count in self._blocks(length))

    def rewrite(
        self, rows: list, random: np.random.Generator, mask_id: int, vocabulary_size: int, special_ids: Any = ()
    ) -> tuple:
        """Makes sources and targets of texts.

        Args:
            rows: List of integer arrays [tokens].
            random: `np.random.Generator`.
            mask_id: Integer. Id of the mask token.
            vocabulary_size: Integer. Number of ids.
            special_ids: List of integers. Ids that are never drawn as random tokens. Defaults to `()`.

        Returns:
            A tuple of four lists of integer arrays: the sources; the decoder's inputs; the targets; and the positions
            of the targets in their text, from 1 on. The last three are equally long, and empty if less than one token
            would be hidden.
        """
        rows = as_rows(rows)
        positions = [self.draw(len(row), random) for row in rows]
        targets = [row[places] for row, places in zip(rows, positions)]
        previous = [row[places - 1] for row, places in zip(rows, positions)]
        sources = [row.copy() for row in rows]
        for source, places, target in zip(sources, positions, targets):
            source[places] = hide(target, random, self, mask_id, vocabulary_size, special_ids)
        return sources, previous, targets, positions
