"""The objective of sequence autoencoders: a text is predicted from itself."""

import dataclasses

import keras
import numpy as np

from keras_transfer.core.expect import expects, integer
from keras_transfer.objectives.draws import as_rows
from keras_transfer.objectives.sequence_objective import SequenceObjective


@expects(seed=integer(0))
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class SequenceAutoencoder(SequenceObjective):
    """Trains the decoder to write the text that the encoder has read (Dai and Le 2015).

    `tasks.Seq2SeqLM(encoder, preprocessor, objective=...)` pretrains with it. A decoder that attends to all vectors of
    the encoder can copy them: what a model learns of language depends on how little of the text passes to the decoder.

    Args:
        seed: Integer. Seed of the objective, which draws nothing: the argument is there for symmetry with other
            objectives. Defaults to `None`.

    Example:
    ```python
    objective = keras_transfer.objectives.SequenceAutoencoder()
    sources, targets = objective.rewrite([np.arange(10, 20)], np.random.default_rng(0))
    ```

    Source: https://arxiv.org/abs/1511.01432
    """

    _: dataclasses.KW_ONLY
    seed: int | None = None

    def rewrite(self, rows: list, random: np.random.Generator) -> tuple:
        """Makes sources and targets of texts.

        Args:
            rows: List of integer arrays [tokens], without special tokens.
            random: `np.random.Generator`. Not used.

        Returns:
            A tuple of the sources and the targets, which are both the rows.
        """
        rows = as_rows(rows)
        return rows, rows

    def max_lengths(self, length: int) -> tuple[int, int]:
        return length, length
