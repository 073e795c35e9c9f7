"""The objective of masked language models: some tokens are hidden and predicted from all others."""

import keras
import numpy as np

from keras_transfer.objectives.draws import check_inner_rate, check_kinds, hide, mask_tokens

# The names of the arguments in files of version 0.1.
_NAMES_OF_0_1 = {"fraction": "mask_selection_rate", "masked": "mask_token_rate", "replaced": "random_token_rate"}


@keras.saving.register_keras_serializable(package="keras_transfer")
class TokenMasking:
    """Hides some tokens of each text, which a masked language model predicts (Devlin et al. 2019, section 3.1).

    A fraction of the real tokens of a text that are not special is chosen, but at least one token. Most of the chosen
    tokens become the mask token, some become a random token that is not special, and the others do not change.

    Args:
        mask_selection_rate: Float between 0 and 1. Fraction of the tokens that are chosen. Defaults to `0.15`.
        mask_token_rate: Float between 0 and 1. Fraction of the chosen tokens that become the mask token. Defaults to
            `0.8`.
        random_token_rate: Float between 0 and 1. Fraction of the chosen tokens that become a random token. Defaults to
            `0.1`.
        seed: Integer. Seed of all choices and of the order of the texts in training. Every epoch draws different
            tokens. Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Call arguments:
        inputs: Dict of integer arrays of shape `[batch, length]`: `token_ids`, `padding_mask` (1 for a real token) and
            possibly others.
        random: `np.random.Generator`.
        mask_id: Integer. Id of the mask token.
        special_ids: List of integers. Ids that are neither chosen nor drawn.
        vocabulary_size: Integer. Number of ids.

    Returns:
        A tuple of the inputs and the targets. The inputs have changed `token_ids`, and `mask_positions`, the positions
        of the chosen tokens in order. The targets are the original ids at these positions. `mask_positions` and the
        targets have the shape `[batch, places]`, int32, and are -1 at places that a text does not use. The number of
        places depends on `length` only.

    Raises:
        ValueError: If a fraction is not between 0 and 1, or if `mask_token_rate` and `random_token_rate` together
            exceed 1.

    Example:
    ```python
    objective = keras_transfer.objectives.TokenMasking(seed=0)
    inputs = {"token_ids": np.array([[2, 7, 8, 9, 3, 0]]), "padding_mask": np.array([[1, 1, 1, 1, 1, 0]])}
    tokens = {"mask_id": 4, "special_ids": [0, 1, 2, 3, 4], "vocabulary_size": 10}
    inputs, targets = objective(inputs, np.random.default_rng(0), **tokens)
    ```

    Source: https://arxiv.org/abs/1810.04805
    """

    def __init__(self, mask_selection_rate=0.15, *, mask_token_rate=0.8, random_token_rate=0.1, seed=None):
        check_inner_rate(mask_selection_rate=mask_selection_rate)
        check_kinds(mask_token_rate, random_token_rate)
        self.mask_selection_rate = mask_selection_rate
        self.mask_token_rate = mask_token_rate
        self.random_token_rate = random_token_rate
        self.seed = seed

    def __call__(self, inputs, random, mask_id, special_ids, vocabulary_size):
        ids = np.asarray(inputs["token_ids"])
        special_ids = np.unique(special_ids)
        allowed = (np.asarray(inputs["padding_mask"]) == 1) & ~np.isin(ids, special_ids)
        length, available = ids.shape[1], allowed.sum(axis=1)
        places = int(np.ceil(self.mask_selection_rate * length))
        count = np.minimum(np.maximum(np.round(self.mask_selection_rate * available), 1), available)
        order = np.argsort(np.where(allowed, random.random(ids.shape), 2.0), axis=1)[:, :places]
        order = np.pad(order, [(0, 0), (0, places - order.shape[1])])
        positions = np.sort(np.where(np.arange(places) < count[:, None], order, length), axis=1)
        row, place = np.nonzero(positions < length)
        chosen = positions[row, place]
        positions[positions == length] = -1
        targets = np.full_like(positions, -1)
        targets[row, place] = ids[row, chosen]

        ids = ids.copy()
        ids[row, chosen] = hide(ids[row, chosen], random, self, mask_id, vocabulary_size, special_ids)
        inputs = {**inputs, "token_ids": ids.astype("int32"), "mask_positions": positions.astype("int32")}
        return inputs, targets.astype("int32")

    def tokens(self, preprocessor):
        """Returns what a call needs to know about a vocabulary, a dict of its further arguments.

        Args:
            preprocessor: `text.TokenPreprocessor`.

        Raises:
            ValueError: If the vocabulary has no mask token.
        """
        return mask_tokens(preprocessor)

    def get_config(self):
        return {
            "mask_selection_rate": self.mask_selection_rate,
            "mask_token_rate": self.mask_token_rate,
            "random_token_rate": self.random_token_rate,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{_NAMES_OF_0_1.get(name, name): value for name, value in config.items()})
