"""The two streams of XLNet: what a position holds, and what the other tokens say about it."""

from typing import Any

import keras
from keras import ops

from keras_transfer.layers.attention.bias import mask_bias
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class TwoStreams(ConfigOfArguments, keras.layers.Layer):
    """Appends XLNet's query stream to the token embeddings of each text, and computes what both streams see.

    The query stream has one place for each token that is predicted. It starts from the same learned vector at all
    places, so that it does not contain the token. Nothing sees the query stream: its keys and values come from the
    content stream, which contains the tokens.

    Args:
        query_stream: Boolean. Whether there is a query stream. If `False`, the layer only holds the vector, which does
            not train, and computes the mask. Defaults to `True`.
        initializer: Initializer of the vector. Defaults to `"zeros"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
        - `segment_ids`: Integer tensor of shape `[batch, length]`. Like the following ones, only for a query stream.
        - `factorization_order`: Integer tensor of shape `[batch, length]`. In the content stream, a position sees those
          with the same or a lower number, and in the query stream those with a lower one. At each place of the query
          stream, there must be at least one.
        - `mask_positions`: Integer tensor of shape `[batch, places]`. The positions of the query stream, negative at
          unused places.

    Returns:
        A tuple of four tensors, in which `both` is `length + places`:

        - the streams, `[batch, both, dim]`;
        - an attention bias, `[batch, 1, both, both]`;
        - the segments of both streams, `[batch, both]`, for `RelativePositions`;
        - the distances for the query stream, `[batch, 1, places, length]`, for `RelativeAttention`.

        Without a query stream, a tuple of the inputs and a bias `[batch, 1, 1, length]`.

    Example:
    ```python
    layer, mask = keras_transfer.layers.TwoStreams(), np.array([[1, 1, 1, 0]])
    streams, bias, segment_ids, distances = layer(
        keras.random.normal((1, 4, 8)),
        mask,
        segment_ids=np.array([[0, 0, 1, 0]]),
        factorization_order=np.array([[0, 2, 1, 0]]),
        mask_positions=np.array([[1, 2]]),
    )
    ```

    Source: https://arxiv.org/abs/1906.08237, section 2.3
    """

    def __init__(
        self, *, query_stream: bool = True, initializer: keras.initializers.Initializer | str = "zeros", **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.query_stream = query_stream
        self.initializer = keras.initializers.get(initializer)

    def build(self, inputs_shape):
        shape = (1, 1, inputs_shape[-1])
        self.mask_embedding = self.add_weight(
            name="mask_embedding", shape=shape, initializer=self.initializer, trainable=self.query_stream
        )

    def call(self, inputs, padding_mask, segment_ids=None, factorization_order=None, mask_positions=None):
        if not self.query_stream:
            return inputs, mask_bias(padding_mask)
        padding_mask, segment_ids, order, positions = (
            ops.cast(values, "int32") for values in (padding_mask, segment_ids, factorization_order, mask_positions)
        )
        positions, length = ops.maximum(positions, 0), ops.shape(inputs)[1]
        vector = ops.cast(self.mask_embedding, inputs.dtype)
        query = vector + ops.cast(ops.zeros_like(positions), inputs.dtype)[:, :, None]

        own = ops.take_along_axis(order, positions, axis=1)
        keys, last = ops.concatenate([order, own], axis=1), ops.concatenate([order, own - 1], axis=1)
        is_token = ops.concatenate([padding_mask, ops.zeros_like(positions)], axis=1)
        bias = mask_bias(is_token, keys[:, None, :] <= last[:, :, None])

        segment_ids = ops.concatenate([segment_ids, ops.take_along_axis(segment_ids, positions, axis=1)], axis=1)
        distances = length - positions[:, None, :, None] + ops.arange(length, dtype="int32")
        return ops.concatenate([inputs, query], axis=1), bias, segment_ids, distances

    def compute_output_spec(
        self, inputs, padding_mask, segment_ids=None, factorization_order=None, mask_positions=None
    ):
        batch, length, dim = inputs.shape
        if not self.query_stream:
            bias = keras.KerasTensor((batch, 1, 1, length), "float32")
            return keras.KerasTensor(inputs.shape, self.compute_dtype), bias
        places = mask_positions.shape[1]
        both = None if None in (length, places) else length + places
        return (
            keras.KerasTensor((batch, both, dim), self.compute_dtype),
            keras.KerasTensor((batch, 1, both, both), "float32"),
            keras.KerasTensor((batch, both), "int32"),
            keras.KerasTensor((batch, 1, places, length), "int32"),
        )


@keras.saving.register_keras_serializable(package="keras_transfer")
class TakeQueryStream(keras.layers.Layer):
    """Takes the query stream `[batch, places, dim]`, the last places of two streams.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length + places, dim]`, two streams of `TwoStreams`.
        - `mask_positions`: Integer tensor of shape `[batch, places]`, of which only the shape matters.
    """

    def call(self, inputs, mask_positions):
        return inputs[:, ops.shape(inputs)[1] - ops.shape(mask_positions)[1] :]

    def compute_output_spec(self, inputs, mask_positions):
        return keras.KerasTensor((*mask_positions.shape, inputs.shape[-1]), self.compute_dtype)
