"""Disentangled attention, whose scores combine content and relative positions (He et al. 2021)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers.attention.multi_head import MultiHeadAttention
from keras_transfer.layers.attention.relative_positions import by_distance
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout


def log_buckets(num_buckets, max_distance):
    """Returns the bucket of each distance from 0 to `max_distance`, int32: first one each, then more and more."""
    distances = np.arange(max_distance + 1)
    if num_buckets < 1:
        return distances.astype("int32")
    middle = num_buckets // 2
    # In float32 as in the original, because a rounding error moves a distance into the next bucket.
    logarithms = np.log(np.maximum(distances, middle).astype("float32") / np.float32(middle))
    far = np.ceil(logarithms / logarithms[max_distance - 1] * np.float32(middle - 1)) + middle
    return np.where(distances <= middle, distances, far).astype("int32")


@keras.saving.register_keras_serializable(package="keras_transfer")
class DistanceEmbedding(ConfigOfArguments, keras.layers.Layer):
    """Embeds the distances between tokens once for all blocks of an encoder.

    Args:
        max_distance: Integer. All distances from this one on have the same vector.
        num_buckets: Integer. Number of vectors for each direction. Far distances share them in logarithmic buckets.
            Defaults to `0`, one vector for each distance.
        layer_norm_epsilon: Float. Epsilon of the layer norm of the vectors. Defaults to `None`, no layer norm.
        initializer: Initializer of the table. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`. Only its shape matters.

    Returns:
        A dict with the key `relative_positions`, the keyword argument of `DisentangledAttention`: a tensor of shape
        `[2 * length, dim]`, the vectors of the distances `length`, ..., `1 - length` from a query back to a key.

    Raises:
        ValueError: If `max_distance` is too small for the buckets.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    attention = keras_transfer.layers.DisentangledAttention(num_heads=2)
    attention(x, **keras_transfer.layers.DistanceEmbedding(max_distance=16)(x))
    ```
    """

    def __init__(
        self,
        max_distance: int,
        *,
        num_buckets: int = 0,
        layer_norm_epsilon: float | None = None,
        initializer: keras.initializers.Initializer | str = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        least = num_buckets // 2 + 2
        rule = f"`max_distance` must be at least {least}, half of `num_buckets` plus 2."
        expect(max_distance >= least, rule, max_distance=max_distance, num_buckets=num_buckets)
        self.max_distance = max_distance
        self.num_buckets = num_buckets
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer = keras.initializers.get(initializer)
        self.buckets = log_buckets(num_buckets, max_distance)
        self.norm = None
        if layer_norm_epsilon is not None:
            self.norm = keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
            )

    def build(self, inputs_shape):
        rows = 2 * (self.num_buckets or self.max_distance)
        shape = (rows, inputs_shape[-1])
        self.embeddings = self.add_weight(name="embeddings", shape=shape, initializer=self.initializer)
        if self.norm is not None:
            self.norm.build(shape)

    def call(self, inputs):
        length = ops.shape(inputs)[1]
        distances = length - ops.arange(2 * length)
        buckets = ops.take(ops.convert_to_tensor(self.buckets), ops.minimum(ops.abs(distances), self.max_distance))
        half = self.embeddings.shape[0] // 2
        rows = ops.clip(half + ops.sign(distances) * buckets, 0, 2 * half - 1)
        table = ops.cast(self.embeddings, self.compute_dtype)
        return {"relative_positions": ops.take(table if self.norm is None else self.norm(table), rows, axis=0)}

    def compute_output_spec(self, inputs):
        length = None if inputs.shape[1] is None else 2 * inputs.shape[1]
        return {"relative_positions": keras.KerasTensor((length, inputs.shape[-1]), self.compute_dtype)}


@keras.saving.register_keras_serializable(package="keras_transfer")
class DisentangledAttention(MultiHeadAttention):
    """DeBERTa's attention, which scores queries with keys, queries with distances, and keys with distances.

    With content `c` and the vector `r(i - j)` of the distance between query `i` and key `j`, the score is
    `q(c_i) k(c_j) + q(c_i) k(r(i - j)) + k(c_j) q(r(i - j))`. Content and distances share the projections `q` and `k`.

    Args:
        num_heads: Integer. Number of heads.
        position_dropout: Float between 0 and 1. Dropout rate of the distance vectors. Defaults to `0.0`.
        **kwargs: Arguments of `MultiHeadAttention`, such as `dropout`. `scale` defaults to `(3 * head_dim) ** -0.5`.

    Call arguments:
        - `relative_positions`: Tensor of shape `[2 * length, dim]`, from `DistanceEmbedding`.

    Raises:
        ValueError: If `relative_positions` is missing.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    distances = keras_transfer.layers.DistanceEmbedding(max_distance=16, num_buckets=8)
    keras_transfer.layers.DisentangledAttention(num_heads=2)(x, **distances(x))
    ```

    Source: https://arxiv.org/abs/2006.03654
    """

    def __init__(self, num_heads: int, *, position_dropout: float = 0.0, **kwargs: Any):
        super().__init__(num_heads, **kwargs)
        self.position_dropout = Dropout(position_dropout, dtype=self.dtype_policy, name="position_dropout")

    def scores(self, query: Any, key: Any, relative_positions: Any = None) -> Any:
        expect(relative_positions is not None, "`relative_positions` is required.", relative_positions=None)
        rows = (1, ops.shape(relative_positions)[0])
        positions = self.position_dropout(relative_positions)
        position_query, position_key, _ = self.project(ops.expand_dims(positions, 0), rows)
        scale = (3 * self.head_dim) ** -0.5 if self.scale is None else self.scale
        query, position_query = query * scale, position_query * scale
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        scores = scores + by_distance(ops.matmul(query, ops.transpose(position_key, (0, 1, 3, 2))))
        # From a key to the queries, the distances run the other way: `-length`, which is not used, ..., `length - 1`.
        position_query = ops.concatenate([position_query[:, :, :1], ops.flip(position_query[:, :, 1:], 2)], axis=2)
        of_keys = by_distance(ops.matmul(key, ops.transpose(position_query, (0, 1, 3, 2))))
        return ops.cast(scores + ops.transpose(of_keys, (0, 1, 3, 2)), "float32")
