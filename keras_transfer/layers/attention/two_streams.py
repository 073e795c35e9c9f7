"""The two streams of XLNet: what a position holds, and what the other tokens say about it."""

import keras
from keras import ops

from keras_transfer.layers.attention.bias import mask_bias


@keras.saving.register_keras_serializable(package="keras_transfer")
class TwoStreams(keras.layers.Layer):
    """Appends XLNet's query stream to a batch of token embeddings as its second half, and computes the masks of both.

    The query stream starts from the same learned vector at all positions, so that it does not contain the token that it
    predicts. In the first half, the content stream, each token also sees itself.

    Args:
        query_stream: Boolean. Whether there is a query stream. If `False`, the layer only holds the vector, which does
            not train, and computes the mask. Defaults to `True`.
        initializer: Initializer of the vector. Defaults to `"zeros"`.

    Call arguments:
        inputs: Tensor of shape `[batch, length, dim]`.
        padding_mask: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
        attention_mask: Tensor of shape `[batch, length, length]`. 1 where a position sees a token. Required for a query
            stream.

    Returns:
        A tuple of the streams, `[2 * batch, length, dim]`, and an attention bias, `[2 * batch, 1, length, length]`.
        Without a query stream, a tuple of the inputs and a bias `[batch, 1, 1, length]`.

    Example:
    ```python
    layer = keras_transfer.layers.TwoStreams()
    streams, bias = layer(keras.random.normal((1, 3, 8)), np.array([[1, 1, 0]]), np.tri(3, k=-1, dtype="int32")[None])
    ```

    Source: https://arxiv.org/abs/1906.08237, section 2.3
    """

    def __init__(self, *, query_stream=True, initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        self.query_stream = query_stream
        self.initializer = keras.initializers.get(initializer)

    def build(self, inputs_shape):
        shape = (1, 1, inputs_shape[-1])
        self.mask_embedding = self.add_weight(
            name="mask_embedding", shape=shape, initializer=self.initializer, trainable=self.query_stream
        )

    def call(self, inputs, padding_mask, attention_mask=None):
        if not self.query_stream:
            return inputs, mask_bias(padding_mask)
        query = ops.broadcast_to(ops.cast(self.mask_embedding, inputs.dtype), ops.shape(inputs))
        attention_mask = ops.cast(attention_mask, "int32")
        with_itself = ops.maximum(attention_mask, ops.eye(ops.shape(inputs)[1], dtype="int32"))
        biases = [mask_bias(padding_mask, mask) for mask in (with_itself, attention_mask)]
        return ops.concatenate([inputs, query], axis=0), ops.concatenate(biases, axis=0)

    def compute_output_spec(self, inputs, padding_mask, attention_mask=None):
        batch, length, dim = inputs.shape
        rows = length if self.query_stream else 1
        if self.query_stream:
            batch = None if batch is None else 2 * batch
        streams = keras.KerasTensor((batch, length, dim), self.compute_dtype)
        return streams, keras.KerasTensor((batch, 1, rows, length), "float32")

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "query_stream": self.query_stream, "initializer": initializer}
