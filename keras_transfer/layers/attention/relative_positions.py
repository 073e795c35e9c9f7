"""Values that depend on the distance between two tokens, computed once for all blocks of an encoder."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout


def by_distance(x):
    """Sorts values of distances by keys `[batch, heads, length, keys]` (Dai et al. 2019, appendix B).

    Args:
        x: Tensor of shape `[batch, heads, length, keys + length]`. Its last axis is the distance from a query, one of
            the last tokens, back to a key: `keys`, `keys - 1`, ..., `1 - length`.
    """
    heads, (length, count) = x.shape[1], ops.shape(x)[2:]
    # Reshaping to rows with one element less shifts the values of each query by one more than those of the query
    # before.
    x = ops.reshape(x, (-1, heads, count, length))[:, :, 1:]
    return ops.reshape(x, (-1, heads, length, count - 1))[..., : count - length]


@keras.saving.register_keras_serializable(package="keras_transfer")
class RelativePositionBias(ConfigOfArguments, keras.layers.Layer):
    """Learned biases of the attention scores for the distance between two tokens, in buckets (Raffel et al. 2020).

    Half of the buckets are for keys before the query, half for those after it, or all of them for keys before it. The
    nearest distances have a bucket each, and further buckets grow logarithmically up to `max_distance`. All distances
    from `max_distance` on share the last bucket.

    Args:
        num_heads: Integer. Number of attention heads.
        num_buckets: Integer, a multiple of 4. Number of buckets. Defaults to `32`.
        max_distance: Integer. The smallest distance of the last bucket. Defaults to `128`.
        initializer: Initializer of the table. Defaults to `"glorot_uniform"`.
        bidirectional: Boolean. Whether half of the buckets are for keys after the query. Otherwise, these share the
            bucket of the query itself, since causal attention does not see them. Defaults to `True`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`. Only its length matters.
        - `start`: Integer or integer tensor. Position of the first query when decoding with a cache. Defaults to
          `None`, for queries and keys of the same tokens.
        - `num_keys`: Integer. Number of keys in the cache. Required with `start`.
        - `memory`: Tensor of shape `[batch, memory_length, dim]`, the tokens before `inputs`, which are keys, too. Only
          its length matters. Defaults to `None`.

    Returns:
        A dict with the key `relative_positions`, the keyword argument of `MultiHeadAttention`: a tensor of shape
        `[1, num_heads, length, keys]`.

    Raises:
        ValueError: If `num_buckets` is not a positive multiple of 4.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    attention = keras_transfer.layers.MultiHeadAttention(num_heads=2)
    attention(x, **keras_transfer.layers.RelativePositionBias(num_heads=2)(x))
    ```

    Source: https://arxiv.org/abs/1910.10683, section 2.1
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        initializer: keras.initializers.Initializer | str = "glorot_uniform",
        bidirectional: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        is_multiple = num_buckets >= 4 and num_buckets % 4 == 0
        expect(is_multiple, "`num_buckets` must be a positive multiple of 4.", num_buckets=num_buckets)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.initializer = keras.initializers.get(initializer)
        self.bidirectional = bidirectional

    def build(self, input_shape):
        shape = (self.num_buckets, self.num_heads)
        self.embeddings = self.add_weight(name="embeddings", shape=shape, initializer=self.initializer)

    def call(self, inputs, start=None, num_keys=None, memory=None):
        length = ops.shape(inputs)[1]
        if start is not None:
            values = self._values((ops.arange(length) + start)[:, None] - ops.arange(num_keys))
            return {"relative_positions": ops.transpose(values, (2, 0, 1))[None]}
        keys = length if memory is None else length + ops.shape(memory)[1]
        values = ops.transpose(self._values(keys - ops.arange(keys + length)))
        values = ops.broadcast_to(values[:, None], (self.num_heads, length, keys + length))
        return {"relative_positions": by_distance(values[None])}

    def _values(self, distance):
        """Returns the biases `[..., num_heads]` of distances back from a query to a key."""
        nearest = ops.abs(distance) if self.bidirectional else ops.maximum(distance, 0)
        bucket = ops.take(self._buckets(), ops.minimum(nearest, self.max_distance))
        if self.bidirectional:
            bucket = bucket + ops.cast(distance < 0, bucket.dtype) * (self.num_buckets // 2)
        return ops.take(ops.cast(self.embeddings, self.compute_dtype), bucket, axis=0)

    def _buckets(self):
        """Returns the bucket of each distance from 0 to `max_distance`, as an array."""
        count = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        exact = count // 2
        distance = np.arange(self.max_distance + 1)
        # In float32, as in the original, because the result is truncated.
        ratio = np.log(np.maximum(distance, exact).astype("float32") / exact) / math.log(self.max_distance / exact)
        far = exact + (ratio * (count - exact)).astype("int32")
        return np.where(distance < exact, distance, np.minimum(far, count - 1)).astype("int32")

    def compute_output_spec(self, inputs, start=None, num_keys=None, memory=None):
        length, keys = inputs.shape[1], _number_of_keys(inputs, memory)
        return {"relative_positions": keras.KerasTensor((1, self.num_heads, length, keys), self.compute_dtype)}


@keras.saving.register_keras_serializable(package="keras_transfer")
class RelativePositions(ConfigOfArguments, keras.layers.Layer):
    """Sinusoidal encodings of distances, and which tokens are in different segments, for `RelativeAttention`.

    Args:
        dropout: Float between 0 and 1. Dropout rate of the encodings. Defaults to `0.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`. Only its shape matters.
        - `segment_ids`: Tensor of shape `[batch, keys]`, or of another length for the segments of `TwoStreams`.
          Defaults to `None`, for `RelativeAttention(segments=False)`.
        - `memory`: Tensor of shape `[batch, memory_length, dim]`, the tokens before `inputs`, which are keys, too. Only
          its length matters. Defaults to `None`.

    Returns:
        A dict with the key `relative_positions`, the keyword argument of `RelativeAttention`: a tuple of the encodings
        of the distances `keys`, ..., `1 - length`, of shape `[keys + length, dim]`, and a boolean tensor of shape
        `[batch, 1, length, keys]` that is true for two tokens in different segments, with the lengths of
        `segment_ids`. Without `segment_ids`, the tuple contains only the encodings.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    positions = keras_transfer.layers.RelativePositions()(x, segment_ids=np.array([[0, 0, 1]]))
    keras_transfer.layers.RelativeAttention(num_heads=2)(x, **positions)
    ```

    Source: https://arxiv.org/abs/1901.02860, https://arxiv.org/abs/1906.08237
    """

    def __init__(self, *, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def call(self, inputs, segment_ids=None, memory=None, training=None):
        length, dim = ops.shape(inputs)[1], inputs.shape[-1]
        before = 0 if memory is None else ops.shape(memory)[1]
        distance = ops.cast(before + length - ops.arange(before + 2 * length), "float32")
        angle = distance[:, None] * ops.power(10000.0, ops.arange(0, dim, 2, dtype="float32") / -dim)
        encodings = ops.cast(ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=-1), self.compute_dtype)
        encodings = self.dropout(encodings, training=training)
        if segment_ids is None:
            return {"relative_positions": (encodings,)}
        segment_ids = ops.convert_to_tensor(segment_ids)
        of_queries = segment_ids[:, before:]
        differs = ops.not_equal(ops.expand_dims(of_queries, (1, 3)), ops.expand_dims(segment_ids, (1, 2)))
        return {"relative_positions": (encodings, differs)}

    def compute_output_spec(self, inputs, segment_ids=None, memory=None, training=None):
        batch, length, dim = inputs.shape
        keys = _number_of_keys(inputs, memory)
        encodings = keras.KerasTensor((None if keys is None else keys + length, dim), self.compute_dtype)
        if segment_ids is None:
            return {"relative_positions": (encodings,)}
        of_keys = segment_ids.shape[1]
        differs = (batch, 1, of_keys if memory is None else length, of_keys)
        return {"relative_positions": (encodings, keras.KerasTensor(differs, "bool"))}


def _number_of_keys(inputs, memory):
    """Returns the number of inputs and of the vectors of a memory in front of them, `None` if it is unknown."""
    lengths = [x.shape[1] for x in (inputs, memory) if x is not None]
    return None if None in lengths else sum(lengths)
