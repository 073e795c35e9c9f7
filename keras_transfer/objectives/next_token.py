"""The objective of causal language models: each token predicts the next one."""

import keras
import numpy as np

from keras_transfer.objectives.objective import Objective


@keras.saving.register_keras_serializable(package="keras_transfer")
class NextToken(Objective):
    """Makes the targets of a causal language model (Bengio et al. 2003): at each position, the token that follows.

    The last token of a text predicts nothing, and neither does padding. Their weight is 0.

    Call arguments:
        - `inputs`: Dict of integer arrays of shape `[batch, length]`: `token_ids`, `padding_mask` (1 for a real token)
          and possibly others. Padding is on the right.
        - `random`: Not used. Defaults to `None`.

    Returns:
        A tuple of `inputs`, unchanged, the targets (int32) and their weights (float32), both of shape
        `[batch, length]`.

    Example:
    ```python
    objective = keras_transfer.objectives.NextToken()
    inputs = {"token_ids": np.array([[5, 6, 7, 0]]), "padding_mask": np.array([[1, 1, 1, 0]])}
    inputs, targets, weights = objective(inputs)
    targets, weights  # [[6, 7, 0, 0]], [[1, 1, 0, 0]]
    ```

    Source: https://www.jmlr.org/papers/v3/bengio03a.html
    """

    def __call__(self, inputs, random=None):
        real = _shifted(inputs["padding_mask"]).astype("float32")
        targets = _shifted(inputs["token_ids"]).astype("int32") * real.astype("int32")
        return inputs, targets, real


def _shifted(values):
    """Returns the next value at each position of an array `[batch, length]`, and 0 at the last position."""
    return np.pad(np.asarray(values)[:, 1:], [(0, 0), (0, 1)])
