"""The objective of prefix language models: the rest of a text is predicted from its beginning."""

import dataclasses

import keras
import numpy as np

from keras_transfer.core.expect import expects, integer, number
from keras_transfer.objectives.draws import as_rows
from keras_transfer.objectives.sequence_objective import SequenceObjective


@expects(noise_density=number(above=0, most=0.5), seed=integer(0))
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class PrefixLM(SequenceObjective):
    """Cuts each text in two: the encoder receives its beginning, and the decoder writes the rest (Raffel et al. 2020).

    `tasks.Seq2SeqLM(encoder, preprocessor, objective=...)` pretrains with it.

    Args:
        noise_density: Float above 0, at most 0.5. Mean fraction of the tokens that are in the target. At `0.5`, every
            cut is equally likely. A lower density excludes the shortest sources. Defaults to `0.5`.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch cuts elsewhere.
            Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Example:
    ```python
    objective = keras_transfer.objectives.PrefixLM()
    sources, targets = objective.rewrite([np.arange(10, 20), np.arange(30, 34)], np.random.default_rng(0))
    ```

    Source: https://arxiv.org/abs/1910.10683
    """

    noise_density: float = 0.5
    _: dataclasses.KW_ONLY
    seed: int | None = None

    def bounds(self, length: int) -> tuple:
        """Returns the smallest and the largest number of tokens that the source of a text may have.

        Args:
            length: Integer. Number of tokens of the text.

        Returns:
            A tuple of two integers.
        """
        most = max(length - 1, 0)
        # T5 computes with 32-bit floats, and rounds halves to even numbers.
        least = int(np.round(np.float32(1 - 2 * self.noise_density) * np.float32(most)))
        return min(max(least, 1), most), most

    def rewrite(self, rows: list, random: np.random.Generator) -> tuple:
        """Makes sources and targets of texts.

        Args:
            rows: List of integer arrays [tokens], without special tokens.
            random: `np.random.Generator`.

        Returns:
            A tuple of the sources and the targets, lists of integer arrays with at least one token. Only a text of a
            single token has an empty source.
        """
        rows = as_rows(rows)
        bounds = [self.bounds(len(row)) for row in rows]
        cuts = [random.integers(least, most, endpoint=True) for least, most in bounds]
        return [row[:cut] for row, cut in zip(rows, cuts)], [row[cut:] for row, cut in zip(rows, cuts)]

    def max_lengths(self, length: int) -> tuple[int, int]:
        targets = (length - self.bounds(length)[0] for length in range(length + 1))
        return max(length - 1, 0), max(targets)
