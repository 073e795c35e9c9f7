"""The ranking loss that uses the other rows of a batch as negatives."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import POSITIVE, expects
from keras_transfer.losses.grouped import PartsLoss, normalized


@keras.saving.register_keras_serializable(package="keras_transfer", name="MultipleNegativesRanking")
class MultipleNegativesRankingLoss(PartsLoss):
    """Cross-entropy of finding the text that belongs to each anchor among the texts of all rows of the batch.

    A row has an anchor, a positive, and any number of hard negatives. With `s` the cosine times `scale`, and the
    candidates `c` all positives and negatives of the batch, the loss of row `i` is

        -log(exp(s(anchor_i, positive_i)) / sum over c of exp(s(anchor_i, c)))

    Larger batches have more negatives and usually give better vectors. A `TextEmbedder` puts equal texts into different
    batches where it can, and the loss leaves them out where it cannot: a candidate is no negative if it equals the
    anchor or the positive, or if its anchor does. If replicas share a batch (`tf.distribute`), each uses its own rows.

    A batch of one row without hard negatives has nothing to compare, and its loss is 0. A `TextEmbedder` therefore
    requires a `batch_size` of at least 2 then, and adds a last batch of one row to the batch before it.

    Args:
        scale: Float. Factor of the cosines, the inverse of a temperature. Defaults to `20.0`.
        symmetric: Boolean. Whether to take the mean with the loss of finding the anchor of each positive among all
            anchors. Defaults to `False`.
        name: String. Name of the loss. Defaults to `"multiple_negatives_ranking_loss"`.
        **kwargs: `reduction` and `dtype`, as in Keras.

    Call arguments:
        - `y_true`: Numbers `[batch, parts]` that are the same for equal texts, or `[batch]`, which are ignored.
        - `y_pred`: Vectors `[batch, parts, dim]`, at least two parts.

    Raises:
        ValueError: If a row has only one vector.

    Example:
    ```python
    loss = keras_transfer.losses.MultipleNegativesRankingLoss(scale=1.0)
    float(loss([0.0, 0.0], [[[1.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [0.0, 3.0]]]))  # log(1 + exp(-1)) = 0.3133
    ```

    Source: https://arxiv.org/abs/1705.00652
    """

    max_parts = None
    takes_labels = False
    takes_texts = True
    min_rows = 2

    @expects(scale=POSITIVE)
    def __init__(
        self,
        *,
        scale: float = 20.0,
        symmetric: bool = False,
        name: str = "multiple_negatives_ranking_loss",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.scale = scale
        self.symmetric = symmetric

    def row_losses(self, labels: Any, anchors: Any, *candidates: Any) -> Any:
        """Computes the loss of each row.

        Args:
            labels: Tensor `[batch, parts]`, the same numbers for equal texts, or `[batch]`, which is ignored.
            anchors: Tensor `[batch, dim]`. Vectors of the anchors.
            *candidates: Tensors `[batch, dim]`: the positives, then the hard negatives.

        Returns:
            A tensor of shape `[batch]`.
        """
        candidates = ops.concatenate([normalized(part) for part in candidates])
        scores = self.scale * ops.matmul(normalized(anchors), ops.transpose(candidates))
        rows = ops.shape(anchors)[0]
        if len(labels.shape) == 2 and labels.shape[1] > 1:
            scores = ops.where(_are_equal(labels), -1e9, scores)
        right = ops.diagonal(scores)  # The first candidates are the positives, in order.
        losses = ops.logsumexp(scores, axis=1) - right
        if self.symmetric:
            losses = (losses + ops.logsumexp(scores[:, :rows], axis=0) - right) / 2
        return losses


def _are_equal(texts):
    """Returns which candidates `[batch, candidates]` are no negatives of which anchors, because of equal texts."""
    anchors, positives = texts[:, :1], texts[:, 1:2]
    candidates = ops.reshape(ops.transpose(texts[:, 1:]), (1, -1))
    # The anchors of positives. A hard negative of one anchor may be one of an equal anchor, too.
    unknown = ops.full_like(ops.transpose(anchors), -1)
    owners = ops.concatenate([ops.transpose(anchors), *[unknown] * (texts.shape[1] - 2)], axis=1)
    rows, columns = ops.shape(anchors)[0], ops.shape(candidates)[1]
    own = ops.arange(columns)[None] == ops.arange(rows)[:, None]
    equal = (candidates == positives) | (candidates == anchors) | (owners == anchors)
    return ops.logical_and(equal, ops.logical_not(own))
