"""The objective of XLM for translations: tokens of two texts that mean the same are hidden and predicted from both."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import FRACTION, PART, expects
from keras_transfer.objectives.draws import check_kinds, hide, mask_tokens, padded, padded_rows
from keras_transfer.objectives.objective import Objective


@expects(mask_selection_rate=PART, mask_token_rate=FRACTION, random_token_rate=FRACTION)
@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass(eq=False)
class TranslationMasking(Objective):
    """Hides tokens of a text and its translation, which are predicted from both (TLM, Conneau and Lample 2019).

    The two texts are joined, each with its own language. Positions begin at 0 in each of them. A hidden token can be
    predicted from its translation, so that a model learns to align the languages.

    Every token is hidden with the same probability, except the first one of the joined texts and special tokens. Pass
    `special_ids=()` to hide special tokens too, as XLM does. A `tasks.MaskedLM` learns from these rows if its encoder
    is an `XlmEncoder` with `further_inputs=["positions"]`.

    Args:
        mask_selection_rate: Float between 0 and 1. Probability of a token to be hidden. Defaults to `0.15`.
        mask_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become the mask token. Defaults to
            `0.8`.
        random_token_rate: Float between 0 and 1. Fraction of the hidden tokens that become a random token. The others
            do not change. Defaults to `0.1`.

    Call arguments:
        - `inputs`: Dict of integer arrays of shape `[batch, length]`: `token_ids`, a text and then its translation,
          both with their special tokens; `padding_mask` (1 for a real token); and `language_ids`, which are not the
          same for both.
        - `random`: `np.random.Generator`.
        - `mask_id`: Integer. Id of the mask token.
        - `vocabulary_size`: Integer. Number of ids.
        - `special_ids`: List of integers. Ids that are neither hidden nor drawn. Defaults to `()`.

    Returns:
        A tuple of the inputs and the targets. The inputs have changed `token_ids`, and two more arrays, int32:
        `positions` `[batch, length]`, and `mask_positions` `[batch, places]`, the places of the hidden tokens in order.
        The targets are the original ids at these places, int32. The last two are -1 at places that a text does not
        use.

    Example:
    ```python
    objective = keras_transfer.objectives.TranslationMasking()
    tokens = {"mask_id": 4, "vocabulary_size": 60, "special_ids": [0, 1, 2, 3, 4]}
    inputs = {"token_ids": np.array([[2, 10, 11, 12, 3, 2, 40, 41, 3]]), "padding_mask": np.ones((1, 9), "int32")}
    inputs["language_ids"] = np.array([[0, 0, 0, 0, 0, 1, 1, 1, 1]])
    inputs, targets = objective(inputs, np.random.default_rng(0), **tokens)
    inputs["positions"]  # [[0, 1, 2, 3, 4, 0, 1, 2, 3]]
    ```

    Source: https://arxiv.org/abs/1901.07291
    """

    made_inputs = ("positions", "mask_positions")

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

    def __call__(self, inputs, random, mask_id, vocabulary_size, special_ids=()):
        ids, real = padded_rows(inputs)
        ids, languages, places = ids.astype("int32"), np.asarray(inputs["language_ids"]), np.arange(ids.shape[1])
        second = np.argmax(languages != languages[:, :1], axis=1)[:, None]  # Where the translation begins.
        positions = np.where(real, places - np.where(places >= second, second, 0), 0)
        hidden, targets = [], []
        for row, length in zip(ids, real.sum(axis=1)):
            hidden.append(self.draw(row[:length], random, special_ids))
            targets.append(row[hidden[-1]])
            row[hidden[-1]] = hide(targets[-1], random, self, mask_id, vocabulary_size, special_ids)
        places = max(map(len, targets))
        made = {"positions": positions.astype("int32"), "mask_positions": padded(hidden, places, -1)}
        return {**inputs, "token_ids": ids, **made}, padded(targets, places, -1)

    def tokens(self, preprocessor: Any) -> dict:
        return mask_tokens(preprocessor)
