"""Adapters around attention: learned keys and values, and a small attention beside a block."""

import keras
from keras import ops

from keras_transfer.layers.adapters.bottleneck import uniform
from keras_transfer.layers.adapters.slots import Adapter
from keras_transfer.layers.attention import MultiHeadAttention, batch_and_length
from keras_transfer.layers.basic import make_dense


class PrefixAdapter(Adapter):
    """Adds keys and values of `length` tokens, which every query sees, before those of the text (Li & Liang 2021).

    The keys start as small random numbers and the values as zero.

    Args:
        length: Integer. Number of tokens.
        num_heads: Integer. Number of heads of the keys and values.
        head_dim: Integer. Width of a head.
    """

    def __init__(self, length, num_heads, head_dim, **kwargs):
        super().__init__(**kwargs)
        self.length = length
        self.num_heads = num_heads
        self.head_dim = head_dim

    def build(self, _=None):
        shape = (self.length, self.num_heads, self.head_dim)
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.keys = self.add_weight(name="keys", shape=shape, initializer=normal)
        self.values = self.add_weight(name="values", shape=shape, initializer="zeros")

    def call(self, key, value, bias=None):
        batch = ops.shape(key)[0]

        def before(prefix, x):
            prefix = ops.transpose(ops.cast(prefix, x.dtype), (1, 0, 2))[None]
            return ops.concatenate([ops.tile(prefix, (batch, 1, 1, 1)), x], axis=2)

        if bias is not None:
            bias = ops.pad(bias, ((0, 0), (0, 0), (0, 0), (self.length, 0)))  # Every query sees the prefix.
        return before(self.keys, key), before(self.values, value), bias


class Projections(keras.layers.Layer):
    """The projections into and out of the small attention, which all blocks share."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, inputs_shape):
        dim = inputs_shape[-1]
        self.down = self.add_weight(name="down_kernel", shape=(dim, self.units), initializer=uniform())
        self.up = self.add_weight(name="up_kernel", shape=(self.units, dim), initializer="zeros")


class ProjectedAttention(MultiHeadAttention, Adapter):
    """Attention in fewer dimensions, beside a block (projected attention layers, Stickland & Murray 2019).

    It returns `up(attention(down(x)))`. The attention has no biases and no output projection.

    Args:
        num_heads: Integer. Number of heads.
        projections: `Projections` that all blocks share.
    """

    def __init__(self, num_heads, projections, **kwargs):
        super().__init__(num_heads, use_bias=False, **kwargs)
        self.projections = projections

    def build(self, inputs_shape, context_shape=None):
        if not self.projections.built:
            self.projections.build(inputs_shape)
        size = self.projections.units
        self.head_dim = size // self.num_heads
        self.query_key_value = make_dense(self, 3 * size, "query_key_value", (*inputs_shape[:-1], size))

    def call(self, outputs, inputs, summed=None, attention_bias=None, training=None):
        rows = batch_and_length(inputs, attention_bias)
        x = ops.matmul(inputs, ops.cast(self.projections.down, self.compute_dtype))
        query, key, value = self.project(x, rows)
        h = self.attend(self.scores(query, key), value, attention_bias, training)
        h = ops.matmul(h, ops.cast(self.projections.up, self.compute_dtype))
        return outputs + ops.reshape(h, ops.shape(outputs))
