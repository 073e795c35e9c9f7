"""A loss that also trains the first components of vectors, so that these can be used alone."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, instance_of, integer, list_of
from keras_transfer.losses.grouped import PartsLoss, normalized


@keras.saving.register_keras_serializable(package="keras_transfer", name="Matryoshka")
class MatryoshkaLoss(PartsLoss):
    """Applies a loss to the first components of each vector, for several numbers of them, and adds up the results.

    After training with it, the first 64 of 384 components of a vector are themselves a useful vector, which takes less
    memory and is searched faster: `vectors[:, :64]`. The first components, and whole vectors too, are scaled to length
    1 before the loss is computed. Their distances are at most 2, so use a margin smaller than the default with
    `TripletLoss`.

    Args:
        loss: Loss of vectors, such as `MultipleNegativesRankingLoss()`.
        dims: List of integers. Numbers of first components. Include the size of the whole vector to train it as well.
        weights: List of floats. Factors of the losses, one for each size. Defaults to `None`, 1 for each.
        name: String. Name of the loss. Defaults to `"matryoshka_loss"`.
        dtype: Dtype of the computation, as in Keras. Defaults to `None`, the dtype of `loss`.
        **kwargs: `reduction`, as in Keras.

    Call arguments:
        - `y_true`: Labels `[batch]` as for `loss`.
        - `y_pred`: Vectors `[batch, parts, dim]` as for `loss`.

    Raises:
        ValueError: If `loss` is not a loss of vectors or has a `reduction` of its own, if `dims` are not different
            positive integers, if there are not as many `weights` as `dims`, or if a size is larger than the vectors.

    Example:
    ```python
    loss = keras_transfer.losses.MatryoshkaLoss(keras_transfer.losses.CosineSimilarityLoss(), dims=[2, 1])
    float(loss([1.0], [[[1.0, 0.0], [3.0, 4.0]]]))  # (0.6 - 1)² + (1 - 1)² = 0.16
    ```

    Source: https://arxiv.org/abs/2205.13147
    """

    @expects(
        loss=instance_of(PartsLoss, "a loss of vectors, such as `MultipleNegativesRankingLoss()`"),
        dims=list_of(integer(1), 1),
    )
    def __init__(
        self,
        loss: PartsLoss,
        dims: Sequence[int],
        *,
        weights: Sequence[float] | None = None,
        name: str = "matryoshka_loss",
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, dtype=getattr(loss, "dtype", None) if dtype is None else dtype, **kwargs)
        rule = "`reduction` must be an argument of `MatryoshkaLoss`, not of its `loss`."
        expect(loss.reduction == "sum_over_batch_size", rule, loss_reduction=loss.reduction)
        expect(len(set(dims)) == len(dims), "`dims` must be different.", dims=dims)
        weights = [1.0] * len(dims) if weights is None else list(weights)
        expect(
            len(weights) == len(dims),
            f"`weights` must have a number for each of the {len(dims)} dims.",
            weights=weights,
        )
        self.loss, self.dims, self.weights = loss, list(dims), weights
        self.min_parts, self.max_parts, self.takes_labels = loss.min_parts, loss.max_parts, loss.takes_labels
        self.min_rows, self.takes_texts = loss.min_rows, loss.takes_texts

    def check_labels(self, labels: np.ndarray) -> None:
        self.loss.check_labels(labels)

    def call(self, y_true, y_pred):
        y_pred = ops.convert_to_tensor(y_pred)
        if max(self.dims) > y_pred.shape[-1]:
            raise ValueError(
                f"`dims` must be at most the size of the vectors, {y_pred.shape[-1]}. Received: dims={self.dims}"
            )
        return sum(
            weight * self.loss.call(y_true, normalized(y_pred[..., :size]))
            for size, weight in zip(self.dims, self.weights)
        )
