"""Ranking metrics: how high the scores rank the right candidates."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.metrics.rows import agree, row_weights


class RankingMetric(SavedByArguments, keras.metrics.Mean):
    """Base class of the ranking metrics, means over rows of candidates. The `k` highest scores count, or all."""

    def __init__(self, k, name, dtype):
        super().__init__(name=name, dtype=dtype)
        self.k = k

    def update_state(self, y_true, y_pred, sample_weight=None):
        grades, scores, weights = _candidates(y_true, y_pred, sample_weight)
        real, relevant = grades >= 0, grades > 0
        grades = ops.maximum(grades, 0.0)
        # For each candidate, count those with a higher score, and those of each kind with the same score.
        higher = _count((scores[:, None, :] > scores[:, :, None]) & real[:, None, :])
        same = scores[:, None, :] == scores[:, :, None]
        relevant_ties = _count(same & relevant[:, None, :])
        other_ties = _count(same & (real & ~relevant)[:, None, :])
        super().update_state(self.score(grades, higher, relevant_ties, other_ties), weights)

    def score(self, grades: Any, higher: Any, relevant_ties: Any, other_ties: Any) -> Any:
        """Computes the metric of each row.

        Args:
            grades: Float32 tensor `[batch, candidates]`, 0 for padding.
            higher: Float32 tensor `[batch, candidates]`. Number of candidates with a higher score.
            relevant_ties: Float32 tensor `[batch, candidates]`. Number of relevant candidates with the same score.
            other_ties: Float32 tensor `[batch, candidates]`. Number of other candidates with the same score.

        Returns:
            A float32 tensor of shape `[batch]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")


def _candidates(y_true, y_pred, sample_weight):
    """Returns float32 grades and scores `[batch, candidates]`, negative grades for padding, and weights `[batch]`."""
    true, scores = ops.convert_to_tensor(y_true), ops.cast(y_pred, "float32")
    true_shape, shape = tuple(true.shape), tuple(scores.shape)
    positions = len(true_shape) == 1 or (len(true_shape) == 2 and true_shape[1] == 1 and shape[-1] != 1)
    fits = agree(true_shape[:1], shape[:1]) if positions else agree(true_shape, shape)
    expect(
        len(shape) == 2 and fits,
        "`y_true` must have the shape [batch] (positions) or [batch, candidates] (grades), and `y_pred` "
        "[batch, candidates].",
        true_shape=true_shape,
        shape=shape,
    )
    if positions:
        true = ops.reshape(ops.cast(true, "int32"), (-1, 1))
        places = ops.arange(ops.shape(scores)[1], dtype="int32")[None]
        grades = ops.where(true < 0, -1.0, ops.cast(true == places, "float32"))
    else:
        grades = ops.cast(true, "float32")
    # Padding and scores that are not numbers come last.
    scores = ops.where((grades >= 0) & ~ops.isnan(scores), scores, float("-inf"))
    weights = row_weights(sample_weight, ops.shape(scores)[:1])
    return grades, scores, ops.where(ops.any(grades >= 0, axis=1), weights, 0.0)


def _count(pairs):
    return ops.sum(ops.cast(pairs, "float32"), axis=2)


def _first(grades, higher, other_ties):
    """Returns the rank `[batch]` of the first relevant candidate, from 1, or infinity if there is none."""
    return ops.min(ops.where(grades > 0, higher + other_ties + 1, float("inf")), axis=1)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MeanReciprocalRank(RankingMetric):
    """The mean reciprocal rank of the first relevant candidate of each row, over all batches.

    A row without a relevant candidate (among the first `k`) has the value 0. A candidate that is not relevant comes
    before relevant ones of the same score, so that giving all candidates the same score is not a success.

    Args:
        k: Integer. The last rank that counts, such as 10 for MS MARCO. Defaults to `None`, all ranks.
        name: String. Name of the metric. Defaults to `"mean_reciprocal_rank"`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]`, the position of the right candidate, or grades of relevance `[batch,
          candidates]`. A candidate is relevant if its grade is above 0, and padding if it is negative. Rows with a
          negative position or only padding do not count.
        - `y_pred`: Scores `[batch, candidates]`.
        - `sample_weight`: Weights `[batch]`. Defaults to `None`, 1 for all.

    Raises:
        ValueError: If the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.MeanReciprocalRank()
    metric.update_state([0, 2], [[0.9, 0.1, 0.3], [0.2, 0.8, 0.6]])
    float(metric.result())  # 0.75
    ```
    """

    @expects(k=integer(1))
    def __init__(self, k: int | None = None, *, name: str = "mean_reciprocal_rank", dtype: Any = None):
        super().__init__(k, name, dtype)

    def score(self, grades: Any, higher: Any, relevant_ties: Any, other_ties: Any) -> Any:
        rank = _first(grades, higher, other_ties)
        return ops.where(rank <= (float("inf") if self.k is None else self.k), 1 / rank, 0.0)


@keras.saving.register_keras_serializable(package="keras_transfer")
class HitsAtK(RankingMetric):
    """The fraction of rows with a relevant candidate among those with the `k` highest scores, over all batches.

    With `k=1` and one right candidate, this is the accuracy. Equal scores are ordered as in `MeanReciprocalRank`.

    Args:
        k: Integer. How many of the highest scores count.
        name: String. Name of the metric. Defaults to `None`, `"hits_at_1"` for `k=1`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]`, the positions of the relevant candidates, or grades `[batch, candidates]`, 0 for
          a candidate that is not relevant and below 0 for padding.
        - `y_pred`: Scores `[batch, candidates]`.

    Raises:
        ValueError: If the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.HitsAtK(1)
    metric.update_state([0, 2], [[0.9, 0.1, 0.3], [0.2, 0.8, 0.6]])
    float(metric.result())  # 0.5
    ```
    """

    @expects(k=integer(1))
    def __init__(self, k: int, *, name: str | None = None, dtype: Any = None):
        super().__init__(k, name or f"hits_at_{k}", dtype)

    def score(self, grades: Any, higher: Any, relevant_ties: Any, other_ties: Any) -> Any:
        return ops.cast(_first(grades, higher, other_ties) <= self.k, "float32")


@keras.saving.register_keras_serializable(package="keras_transfer")
class RecallAtK(RankingMetric):
    """The fraction of each row's relevant candidates that are among the `k` highest scores, averaged over all rows.

    A row without a relevant candidate has the value 0. Equal scores are ordered as in `MeanReciprocalRank`.

    Args:
        k: Integer. How many of the highest scores count.
        name: String. Name of the metric. Defaults to `None`, `"recall_at_10"` for `k=10`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]`, the positions of the relevant candidates, or grades `[batch, candidates]`, 0 for
          a candidate that is not relevant and below 0 for padding.
        - `y_pred`: Scores `[batch, candidates]`.

    Raises:
        ValueError: If the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.RecallAtK(2)
    metric.update_state([[1, 0, 1, 1]], [[0.9, 0.8, 0.7, 0.1]])
    float(metric.result())  # 0.333...
    ```
    """

    @expects(k=integer(1))
    def __init__(self, k: int, *, name: str | None = None, dtype: Any = None):
        super().__init__(k, name or f"recall_at_{k}", dtype)

    def score(self, grades: Any, higher: Any, relevant_ties: Any, other_ties: Any) -> Any:
        relevant = ops.cast(grades > 0, "float32")
        found = ops.clip(ops.divide_no_nan(self.k - higher - other_ties, relevant_ties), 0.0, 1.0)
        return ops.divide_no_nan(ops.sum(relevant * found, axis=1), ops.sum(relevant, axis=1))


@keras.saving.register_keras_serializable(package="keras_transfer")
class NDCG(RankingMetric):
    """The normalized discounted cumulative gain of the `k` highest scores, averaged over all rows.

    The gain of a candidate is its grade, divided by the binary logarithm of its rank + 1. Equals
    `sklearn.metrics.ndcg_score`: candidates of the same score share their gain, and a row without a relevant candidate
    has the value 0.

    Args:
        k: Integer. How many of the highest scores count. Defaults to `None`, all.
        name: String. Name of the metric. Defaults to `None`, `"ndcg"`, or `"ndcg_at_10"` for `k=10`.
        dtype: Dtype of the result. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch]`, the positions of the relevant candidates, or grades `[batch, candidates]`, 0 for
          a candidate that is not relevant and below 0 for padding.
        - `y_pred`: Scores `[batch, candidates]`.

    Raises:
        ValueError: If the shapes do not match.

    Example:
    ```python
    metric = keras_transfer.metrics.NDCG()
    metric.update_state([[0, 3, 1]], [[0.9, 0.8, 0.1]])
    float(metric.result())  # 0.659...
    ```

    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
    """

    @expects(k=integer(1))
    def __init__(self, k: int | None = None, *, name: str | None = None, dtype: Any = None):
        super().__init__(k, name or ("ndcg" if k is None else f"ndcg_at_{k}"), dtype)

    def score(self, grades: Any, higher: Any, relevant_ties: Any, other_ties: Any) -> Any:
        ranks = ops.cast(ops.arange(ops.shape(grades)[1], dtype="int32") + 1, "float32")
        discounts = 1 / ops.log2(ranks + 1)
        if self.k is not None:
            discounts = ops.where(ranks <= self.k, discounts, 0.0)
        sums = ops.pad(ops.cumsum(discounts), [[1, 0]])
        ties = relevant_ties + other_ties
        lower, upper = (ops.take(sums, ops.cast(ranks, "int32")) for ranks in (higher, higher + ties))
        gain = ops.sum(ops.divide_no_nan(grades * (upper - lower), ties), axis=1)
        best = ops.sum(-ops.sort(-grades, axis=1) * discounts, axis=1)
        return ops.divide_no_nan(gain, best)
