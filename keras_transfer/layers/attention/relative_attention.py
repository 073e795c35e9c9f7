"""Attention whose scores depend on the query and the distance, as in Transformer-XL and XLNet."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import FLAG, expect, expects
from keras_transfer.layers.attention.multi_head import MultiHeadAttention
from keras_transfer.layers.attention.relative_positions import by_distance
from keras_transfer.layers.basic.initializers import make_dense


@keras.saving.register_keras_serializable(package="keras_transfer")
class RelativeAttention(MultiHeadAttention):
    """Attention by content, by distance and by segment (Dai et al. 2019; Yang et al. 2019).

    The score of query `i` and key `j` is the sum of three products, each with a bias of its own for the query:

        (q_i + content_bias) k_j + (q_i + position_bias) position(r_{i-j}) + (q_i + segment_bias) s_{ij}

    `r` is the sinusoidal encoding of the distance, and `s` a learned vector for tokens in the same segment and another
    for those in different segments. Transformer-XL has no segments, and so only the first two products.

    Args:
        num_heads: Integer. Number of heads.
        segments: Boolean. Whether scores depend on segments, as in XLNet. Otherwise, `RelativePositions` receives no
            `segment_ids`, as in Transformer-XL. Defaults to `True`.
        **kwargs: Arguments of `MultiHeadAttention`, such as `causal` or `dropout`. There is no `use_bias`, because the
            query has biases of its own.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `relative_positions`: Tuple from `RelativePositions`. For the two streams of `TwoStreams`, with the distances
          that this layer returns as the third element.
        - `memory`: Tensor of shape `[batch, memory_length, dim]`, the tokens before `inputs`, which are keys, too.
          `RelativePositions` receives it as well. Not for two streams. Defaults to `None`.
        - `padding_mask`: Tensor of shape `[batch, keys]`. 1 for a real token, 0 for padding. Defaults to `None`.
        - `attention_mask`: Tensor of shape `[batch, length, keys]`. 1 where a token sees another. Defaults to `None`.
        - `attention_bias`: Tensor of shape `[batch, 1, 1 or length, keys]`, in place of the masks. Defaults to `None`.

    Returns:
        A tensor of shape `[batch, length, dim]`.

    Raises:
        ValueError: If `relative_positions` have segments and the layer has none, or the other way around.

    Example:
    ```python
    x = keras.random.normal((1, 3, 8))
    positions = keras_transfer.layers.RelativePositions()(x, segment_ids=np.array([[0, 0, 1]]))
    keras_transfer.layers.RelativeAttention(num_heads=2)(x, **positions)
    ```

    Source: https://arxiv.org/abs/1901.02860, section 3.3, https://arxiv.org/abs/1906.08237, section 2
    """

    @expects(segments=FLAG)
    def __init__(self, num_heads: int, *, segments: bool = True, **kwargs: Any):
        super().__init__(num_heads, use_bias=False, **kwargs)
        self.segments = segments

    def build(self, inputs_shape, context_shape=None):
        super().build(inputs_shape)
        width = self.num_heads * self.head_dim
        self.position = make_dense(self, width, "position", (None, inputs_shape[-1]))
        shape = (self.num_heads, self.head_dim)
        shapes = {"content_bias": shape, "position_bias": shape}
        if self.segments:
            shapes |= {"segment_bias": shape, "segment_embedding": (2, *shape)}
        for name, shape in shapes.items():
            weight = self.add_weight(name=name, shape=shape, initializer=self.kernel_initializer.clone())
            setattr(self, name, weight)

    def scores(self, query: Any, key: Any, relative_positions: Any = None) -> Any:
        encodings, *of_segments = relative_positions
        rule = "`RelativePositions` must receive `segment_ids` if the attention has `segments=True`, and only then."
        expect(bool(of_segments) == self.segments, rule, segments=self.segments)
        differs, *of_queries = of_segments or [None]
        heads, dim = self.num_heads, self.head_dim
        scale = dim**-0.5 if self.scale is None else self.scale

        def biased(bias):
            return (query + ops.reshape(bias, (heads, 1, dim))) * scale

        content = ops.matmul(biased(self.content_bias), ops.transpose(key, (0, 1, 3, 2)))
        distances = ops.transpose(ops.reshape(self.position(encodings), (-1, heads, dim)), (1, 2, 0))
        position = ops.matmul(biased(self.position_bias), distances[None])
        position = _of_both_streams(position, content, *of_queries) if of_queries else by_distance(position)
        if differs is None:
            return ops.cast(content, "float32") + ops.cast(position, "float32")
        segments = ops.matmul(biased(self.segment_bias), ops.transpose(self.segment_embedding, (1, 2, 0))[None])
        segment = ops.where(differs, segments[..., 1:], segments[..., :1])
        return sum(ops.cast(scores, "float32") for scores in (content, position, segment))

    def get_config(self):
        config = super().get_config()
        del config["use_bias"]
        return config


def _of_both_streams(x, content, queries):
    """Sorts values of distances by keys for the queries of a content stream and then of a query stream.

    The values for keys of the query stream, which are hidden, are 0.

    Args:
        x: Tensor of shape `[batch, heads, length + places, 2 * length]`; see `by_distance`.
        content: Tensor of shape `[batch, heads, length + places, length + places]`. Only its shape matters.
        queries: Integer tensor of shape `[batch, 1, places, length]`. Where on the last axis of `x` the value of
            each key is for a query of the query stream.
    """
    length = ops.shape(queries)[3]
    first, second = by_distance(x[:, :, :length]), ops.take_along_axis(x[:, :, length:], queries, axis=-1)
    return ops.concatenate([ops.concatenate([first, second], axis=2), ops.zeros_like(content[..., length:])], axis=3)
