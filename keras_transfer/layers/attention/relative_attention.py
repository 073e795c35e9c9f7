"""Attention whose scores depend on the query and the distance, as in Transformer-XL and XLNet."""

import keras
from keras import ops

from keras_transfer.layers.attention.multi_head import MultiHeadAttention
from keras_transfer.layers.attention.relative_positions import by_distance
from keras_transfer.layers.basic import make_dense


@keras.saving.register_keras_serializable(package="keras_transfer")
class RelativeAttention(MultiHeadAttention):
    """Attention by content, by distance and by segment (Dai et al. 2019; Yang et al. 2019).

    The score of query `i` and key `j` is the sum of three products, each with a bias of its own for the query:

        (q_i + content_bias) k_j + (q_i + position_bias) position(r_{i-j}) + (q_i + segment_bias) s_{ij}

    `r` is the sinusoidal encoding of the distance, and `s` a learned vector for tokens in the same segment and another
    for those in different segments.

    Args:
        num_heads: Integer. Number of heads.
        two_streams: Boolean. Whether the second half of the batch contains XLNet's query stream. Its keys and values
            are those of the first half, the content stream. Defaults to `False`.
        dropout, kernel_initializer: See `MultiHeadAttention`.

    Call arguments:
        inputs: Tensor of shape `[batch, length, dim]`.
        relative_positions: Tuple from `RelativePositions`.
        padding_mask, attention_mask, attention_bias: See `MultiHeadAttention`.

    Returns:
        A tensor of shape `[batch, length, dim]`.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    positions = keras_transfer.layers.RelativePositions()(x, segment_ids=np.array([[0, 0, 1]]))
    keras_transfer.layers.RelativeAttention(num_heads=2)(x, **positions)
    ```

    Source: https://arxiv.org/abs/1906.08237, section 2
    """

    def __init__(self, num_heads, *, two_streams=False, dropout=0.0, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(num_heads, use_bias=False, dropout=dropout, kernel_initializer=kernel_initializer, **kwargs)
        self.two_streams = two_streams

    def build(self, inputs_shape, context_shape=None):
        super().build(inputs_shape)
        width = self.num_heads * self.head_dim
        self.position = make_dense(self, width, "position", (None, inputs_shape[-1]))
        shape = (self.num_heads, self.head_dim)
        self.content_bias, self.position_bias, self.segment_bias = (
            self.add_weight(name=name, shape=shape, initializer=self.kernel_initializer.clone())
            for name in ("content_bias", "position_bias", "segment_bias")
        )
        self.segment_embedding = self.add_weight(
            name="segment_embedding", shape=(2, *shape), initializer=self.kernel_initializer.clone()
        )

    def project(self, inputs, rows, context=None, context_rows=None):
        query, key, value = super().project(inputs, rows)
        if self.two_streams:
            key, value = (ops.tile(ops.split(x, 2, axis=0)[0], (2, 1, 1, 1)) for x in (key, value))
        return query, key, value

    def scores(self, query, key, relative_positions=None):
        encodings, differs = relative_positions
        heads, dim = self.num_heads, self.head_dim

        def biased(bias):
            return (query + ops.reshape(bias, (heads, 1, dim))) * dim**-0.5

        content = ops.matmul(biased(self.content_bias), ops.transpose(key, (0, 1, 3, 2)))
        distances = ops.transpose(ops.reshape(self.position(encodings), (-1, heads, dim)), (1, 2, 0))
        position = by_distance(ops.matmul(biased(self.position_bias), distances[None]))
        segments = ops.matmul(biased(self.segment_bias), ops.transpose(self.segment_embedding, (1, 2, 0))[None])
        segment = ops.where(differs, segments[..., 1:], segments[..., :1])
        return sum(ops.cast(scores, "float32") for scores in (content, position, segment))

    def get_config(self):
        config = super().get_config()
        own = ("num_heads", "dropout", "kernel_initializer", "name", "dtype", "trainable")
        return {**{name: config[name] for name in own}, "two_streams": self.two_streams}
