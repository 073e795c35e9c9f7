"""Losses based on the distances between the vectors of a row: triplets, and pairs with a label."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import expect_each
from keras_transfer.core.expect import expects, number, one_of
from keras_transfer.losses.grouped import PartsLoss, check_between, cosine_distances, cosines, euclidean_distances

DISTANCES = {"cosine": cosine_distances, "euclidean": euclidean_distances}


@keras.saving.register_keras_serializable(package="keras_transfer")
class TripletLoss(PartsLoss):
    """`max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`.

    Args:
        distance: String, `"euclidean"` or `"cosine"` (one minus the cosine). Defaults to `"euclidean"`.
        margin: Float. How much farther than the positive the negative must be from the anchor. Vectors of length 1 have
            distances of at most 2. Defaults to `5.0`.
        name: String. Name of the loss. Defaults to `"triplet_loss"`.
        **kwargs: `reduction` and `dtype`, as in Keras.

    Call arguments:
        - `y_true`: Numbers `[batch]`, which are ignored.
        - `y_pred`: Vectors `[batch, 3, dim]`: anchors, positives and negatives.

    Raises:
        ValueError: If a row does not have three vectors.

    Example:
    ```python
    loss = keras_transfer.losses.TripletLoss(margin=1.0)
    float(loss([0.0], [[[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]]]))  # 5 - 2 + 1 = 4
    ```

    Source: https://arxiv.org/abs/1503.03832
    """

    min_parts = max_parts = 3
    takes_labels = False

    @expects(distance=one_of(*DISTANCES), margin=number(0))
    def __init__(self, *, distance: str = "euclidean", margin: float = 5.0, name: str = "triplet_loss", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.distance, self.margin = distance, margin

    def row_losses(self, labels: Any, anchors: Any, positives: Any, negatives: Any) -> Any:
        """Computes the loss of each row.

        Args:
            labels: Tensor `[batch]`, which is ignored.
            anchors: Tensor `[batch, dim]`. Vectors of the anchors.
            positives: Tensor `[batch, dim]`. Vectors of the positives.
            negatives: Tensor `[batch, dim]`. Vectors of the negatives.

        Returns:
            A tensor of shape `[batch]`.
        """
        distance = DISTANCES[self.distance]
        return ops.relu(distance(anchors, positives) - distance(anchors, negatives) + self.margin)


@keras.saving.register_keras_serializable(package="keras_transfer")
class ContrastiveLoss(PartsLoss):
    """Pulls the texts of pairs with the label 1 together, and pushes those with the label 0 apart up to a margin.

    With `d` the distance, the loss is `(label * d² + (1 - label) * max(0, margin - d)²) / 2`.

    Args:
        distance: String, `"cosine"` (one minus the cosine) or `"euclidean"`. Defaults to `"cosine"`.
        margin: Float. Distance from which a pair with the label 0 has no loss. Defaults to `0.5`.
        name: String. Name of the loss. Defaults to `"contrastive_loss"`.
        **kwargs: `reduction` and `dtype`, as in Keras.

    Call arguments:
        - `y_true`: Labels `[batch]`, 0 or 1.
        - `y_pred`: Vectors `[batch, 2, dim]`.

    Raises:
        ValueError: If a row does not have two vectors.

    Example:
    ```python
    loss = keras_transfer.losses.ContrastiveLoss(distance="euclidean", margin=7.0)
    float(loss([0], [[[0.0, 0.0], [3.0, 4.0]]]))  # (7 - 5)² / 2 = 2
    ```

    Source: Hadsell, Chopra and LeCun 2006, "Dimensionality reduction by learning an invariant mapping"
    """

    @expects(distance=one_of(*DISTANCES), margin=number(0))
    def __init__(self, *, distance: str = "cosine", margin: float = 0.5, name: str = "contrastive_loss", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.distance, self.margin = distance, margin

    def row_losses(self, labels: Any, first: Any, second: Any) -> Any:
        """Computes the loss of each pair.

        Args:
            labels: Tensor `[batch]`, 0 or 1.
            first: Tensor `[batch, dim]`. Vectors of the first texts.
            second: Tensor `[batch, dim]`. Vectors of the second texts.

        Returns:
            A tensor of shape `[batch]`.
        """
        distances = DISTANCES[self.distance](first, second)
        return 0.5 * (labels * distances**2 + (1 - labels) * ops.relu(self.margin - distances) ** 2)

    def check_labels(self, labels: np.ndarray) -> None:
        expect_each((labels == 0) | (labels == 1), f"Labels of `{type(self).__name__}` must be 0 or 1.", labels)


@keras.saving.register_keras_serializable(package="keras_transfer")
class CosineSimilarityLoss(PartsLoss):
    """The squared difference between the cosine of the two vectors of a row and its label.

    Args:
        name: String. Name of the loss. Defaults to `"cosine_similarity_loss"`.
        **kwargs: `reduction` and `dtype`, as in Keras.

    Call arguments:
        - `y_true`: Numbers `[batch]` between -1 and 1. Divide similarities from 0 to 5 (STS-B) by 5.
        - `y_pred`: Vectors `[batch, 2, dim]`.

    Raises:
        ValueError: If a row does not have two vectors.

    Example:
    ```python
    loss = keras_transfer.losses.CosineSimilarityLoss()
    float(loss([0.5], [[[1.0, 0.0], [2.0, 0.0]]]))  # (1 - 0.5)² = 0.25
    ```

    Source: https://arxiv.org/abs/1908.10084
    """

    def __init__(self, *, name: str = "cosine_similarity_loss", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def row_losses(self, labels: Any, first: Any, second: Any) -> Any:
        """Computes the loss of each pair.

        Args:
            labels: Tensor `[batch]`, from -1 to 1.
            first: Tensor `[batch, dim]`. Vectors of the first texts.
            second: Tensor `[batch, dim]`. Vectors of the second texts.

        Returns:
            A tensor of shape `[batch]`.
        """
        return (cosines(first, second) - labels) ** 2

    def check_labels(self, labels: np.ndarray) -> None:
        check_between(labels, -1, 1, self)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MarginMSELoss(PartsLoss):
    """The squared difference of margins: by how much a query prefers a text to another one, and its teacher does.

    The margin of the vectors is `query · positive - query · negative`. That of a teacher, which may read both texts of
    a pair together, is the label.

    Args:
        name: String. Name of the loss. Defaults to `"margin_mse_loss"`.
        **kwargs: `reduction` and `dtype`, as in Keras.

    Call arguments:
        - `y_true`: Numbers `[batch]`. The teacher's score of the positive minus that of the negative.
        - `y_pred`: Vectors `[batch, 3, dim]`: queries, positives and negatives.

    Raises:
        ValueError: If a row does not have three vectors.

    Example:
    ```python
    loss = keras_transfer.losses.MarginMSELoss()
    float(loss([4.0], [[[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]]]))  # (5 - 3 - 4)² = 4
    ```

    Source: https://arxiv.org/abs/2010.02666
    """

    min_parts = max_parts = 3

    def __init__(self, *, name: str = "margin_mse_loss", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def row_losses(self, labels: Any, queries: Any, positives: Any, negatives: Any) -> Any:
        """Computes the loss of each row.

        Args:
            labels: Tensor `[batch]`. Margins of the teacher.
            queries: Tensor `[batch, dim]`. Vectors of the queries.
            positives: Tensor `[batch, dim]`. Vectors of the positives.
            negatives: Tensor `[batch, dim]`. Vectors of the negatives.

        Returns:
            A tensor of shape `[batch]`.
        """
        return (ops.sum(queries * (positives - negatives), axis=-1) - labels) ** 2
