"""The objective of T5: spans of tokens are replaced by sentinels, and predicted."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import PART, expect, expects, integer, number
from keras_transfer.objectives.draws import as_rows
from keras_transfer.objectives.noise import corrupt_spans
from keras_transfer.objectives.sequence_objective import SequenceObjective


@expects(noise_density=PART, mean_span_length=number(1), seed=integer(0))
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class SpanCorruption(SequenceObjective):
    """Replaces spans of tokens by sentinels, for which the decoder writes what they stand for (Raffel et al. 2020).

    "thank you for inviting me to your party" becomes the source "thank you `<extra_id_0>` me to your `<extra_id_1>`"
    and the target "`<extra_id_0>` for inviting `<extra_id_1>` party". The length of a text determines the number of its
    spans and of the tokens in them. All spans of these numbers are equally likely, but a text never begins with one. A
    text of a single token is not changed.

    `tasks.Seq2SeqLM(encoder, preprocessor, objective=...)` pretrains with it. The vocabulary must have sentinels.

    Args:
        noise_density: Float between 0 and 1. Fraction of the tokens that are replaced. Defaults to `0.15`.
        mean_span_length: Float of at least 1. Mean number of tokens in a span. Defaults to `3.0`.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws other spans.
            Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Example:
    ```python
    objective = keras_transfer.objectives.SpanCorruption(0.3, mean_span_length=2.0)
    rows = [np.arange(10, 20), np.arange(30, 34)]
    sources, targets = objective.rewrite(rows, np.random.default_rng(0), sentinel_ids=[99, 98, 97])
    ```

    Source: https://arxiv.org/abs/1910.10683
    """

    noise_density: float = 0.15
    _: dataclasses.KW_ONLY
    mean_span_length: float = 3.0
    seed: int | None = None

    def counts(self, length: int | np.ndarray) -> tuple:
        """Computes how many tokens of a text are noise, and how many spans of noise it has.

        The numbers are those for two tokens if `length` is less than 2.

        Args:
            length: Integer, or array of integers. Number of tokens.

        Returns:
            A tuple of two integers, or of two arrays.
        """
        length = np.maximum(length, 2)
        # T5 computes with 32-bit floats, and rounds halves to even numbers.
        tokens = np.round(np.float32(length) * np.float32(self.noise_density)).astype(int)
        tokens = np.minimum(np.maximum(tokens, 1), length - 1)
        spans = np.round(np.float32(tokens) / np.float32(self.mean_span_length)).astype(int)
        return tokens, np.minimum(np.maximum(spans, 1), length - tokens)

    def draw(self, length: int, random: np.random.Generator) -> np.ndarray:
        """Draws which tokens of a text are noise.

        Args:
            length: Integer. Number of tokens.
            random: `np.random.Generator`.

        Returns:
            A boolean array `[length]`.
        """
        tokens, spans = self.counts(length)
        noise, others = (_segments(total, spans, random) for total in (tokens, max(length, 2) - tokens))
        return np.repeat(np.tile([False, True], spans), np.stack([others, noise], axis=1).ravel())[:length]

    def rewrite(self, rows: list, random: np.random.Generator, sentinel_ids: list[int]) -> tuple:
        """Makes sources and targets of texts.

        Args:
            rows: List of integer arrays [tokens], without special tokens.
            random: `np.random.Generator`.
            sentinel_ids: List of integers. The sentinels in the order in which they are used.

        Returns:
            A tuple of the sources and the targets, lists of integer arrays.

        Raises:
            ValueError: If a text has more spans than there are sentinels.
        """
        pairs = [corrupt_spans(row, self.draw(len(row), random), sentinel_ids) for row in as_rows(rows)]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def tokens(self, preprocessor: Any) -> dict:
        sentinel_ids = preprocessor.tokenizer.sentinel_ids
        rule = "`SpanCorruption` needs a vocabulary with sentinels, '<extra_id_0>', '<extra_id_1>' and so on."
        expect(sentinel_ids, rule, vocabulary_size=preprocessor.vocabulary_size)
        return {**super().tokens(preprocessor), "sentinel_ids": sentinel_ids}

    def max_lengths(self, length: int) -> tuple[int, int]:
        tokens, spans = self.counts(np.arange(length + 1))
        return int((np.arange(length + 1) - tokens + spans).max()), int((tokens + spans).max())


def _segments(total, count, random):
    """Returns the lengths of `count` segments whose sum is `total`. All are at least 1 and equally likely."""
    cuts = np.sort(random.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))
