"""The objective of XLM for translations: tokens of two texts that mean the same are hidden and predicted from both."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np

from keras_transfer.core.expect import FRACTION, PART, expect, expects
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.objectives.draws import as_rows, check_kinds, hide


@expects(mask_selection_rate=PART, mask_token_rate=FRACTION, random_token_rate=FRACTION)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class TranslationMasking(SavedByArguments):
    """Hides tokens of a text and its translation, which are predicted from both (TLM, Conneau and Lample 2019).

    The two texts are joined. Positions begin at 0 in each of them, and each has its own language. A hidden token can be
    predicted from its translation, so that a model learns to align the languages.

    Every token is hidden with the same probability, except the first one of the joined texts and special tokens. Pass
    `special_ids=()` to hide special tokens too, as XLM does. A `tasks.MaskedLM` learns from these rows, padded, if its
    encoder is an `XlmEncoder` with `further_inputs=["positions"]`.

    Args:
        mask_selection_rate: Float between 0 and 1. Probability of a token to be hidden. Defaults to `0.15`.
        mask_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become the mask token. Defaults to
            `0.8`.
        random_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become a random token. The others
            do not change. Defaults to `0.1`.

    Call arguments:
        - `rows`: List of integer arrays [tokens], the texts with their special tokens.
        - `translations`: List of integer arrays [tokens], as many.
        - `random`: `np.random.Generator`.
        - `mask_id`: Integer. Id of the mask token.
        - `vocabulary_size`: Integer. Number of ids.
        - `special_ids`: List of integers. Ids that are neither hidden nor drawn. Defaults to `()`.
        - `language_ids`: Tuple of two integers. The languages of the texts and of the translations. Defaults to `(0,
          1)`.

    Returns:
        A tuple of the inputs and the targets. The inputs are a dict of lists of integer arrays: `token_ids`,
        `positions` and `language_ids`, with a value for each token, and `mask_positions`, the places of the hidden
        tokens in order. The targets are a list of the original ids at these places.

    Raises:
        ValueError: If there are not as many translations as texts.

    Example:
    ```python
    objective = keras_transfer.objectives.TranslationMasking()
    tokens = {"mask_id": 4, "vocabulary_size": 60, "special_ids": [0, 1, 2, 3, 4]}
    rows, translations = [np.array([2, 10, 11, 12, 3])], [np.array([2, 40, 41, 3])]
    inputs, targets = objective(rows, translations, np.random.default_rng(0), **tokens)
    inputs["positions"]  # [[0, 1, 2, 3, 4, 0, 1, 2, 3]]
    ```

    Source: https://arxiv.org/abs/1901.07291
    """

    mask_selection_rate: float = 0.15
    _: dataclasses.KW_ONLY
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1

    def __post_init__(self):
        check_kinds(self)

    def draw(self, row: np.ndarray, random: np.random.Generator, special_ids: Sequence[int] = ()) -> np.ndarray:
        """Draws the tokens of joined texts that are hidden.

        Args:
            row: Integer array [tokens].
            random: `np.random.Generator`.
            special_ids: List of integers. Ids that are not hidden. Defaults to `()`.

        Returns:
            An integer array of positions in ascending order.
        """
        allowed = (np.arange(len(row)) > 0) & ~np.isin(row, np.asarray(special_ids, int))
        return np.flatnonzero((random.random(len(row)) < self.mask_selection_rate) & allowed)

    def __call__(self, rows, translations, random, mask_id, vocabulary_size, special_ids=(), language_ids=(0, 1)):
        rows, translations = as_rows(rows), as_rows(translations)
        rule = "Each text must have one translation."
        expect(len(rows) == len(translations), rule, rows=len(rows), translations=len(translations))
        inputs = {"token_ids": [], "positions": [], "language_ids": [], "mask_positions": []}
        targets = []
        for parts in zip(rows, translations):
            joined, lengths = np.concatenate(parts), [len(part) for part in parts]
            places = self.draw(joined, random, special_ids)
            target = joined[places]
            joined[places] = hide(target, random, self, mask_id, vocabulary_size, special_ids)
            inputs["token_ids"].append(joined)
            inputs["positions"].append(np.concatenate([np.arange(length) for length in lengths]))
            inputs["language_ids"].append(np.repeat(language_ids, lengths))
            inputs["mask_positions"].append(places)
            targets.append(target)
        return inputs, targets
