"""Projected attention layers: a small attention parallel to each block."""

import dataclasses

import keras
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, put
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.layers import (
    AdaptedBlock,
    Adapter,
    MultiHeadAttention,
    adapter_policy,
    batch_and_length,
    make_dense,
    stand_in,
    uniform,
)


@expects(size=integer(1), num_heads=integer(1))
@register_kind(pals={})
class PALs(AdapterKind):
    """A small attention layer parallel to each block (projected attention layers, Stickland & Murray 2019).

    Args:
        size: Integer. Width of the attention. Defaults to `204`.
        num_heads: Integer, a divisor of `size`. Number of heads. Defaults to `12`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.PALs(size=12, num_heads=2))
    ```
    """

    size: int = 204
    _: dataclasses.KW_ONLY
    num_heads: int = 12

    def __post_init__(self):
        fits = self.size % self.num_heads == 0
        expect(fits, "`num_heads` must be a divisor of `size`.", size=self.size, num_heads=self.num_heads)

    def attach(self, encoder, name):
        blocks = blocks_of(encoder)
        causal = [block.name for block in blocks if block.attention.causal]
        rule = "`PALs` have no cache, which causal blocks require. Use a different kind, such as 'lora'."
        expect(not causal, rule, causal=causal)
        projections = Projections(self.size, name="projections", dtype=adapter_policy(blocks[0].dtype_policy))
        for block in blocks:
            layer = ProjectedAttention(self.num_heads, projections, dtype=block.dtype_policy, name=name)
            put(encoder, stand_in(AdaptedBlock, block, "beside", f"{block.name}.block"), name, layer)


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
    """Attention in fewer dimensions, parallel to a block (projected attention layers, Stickland & Murray 2019).

    It adds `up(attention(down(x)))` to the outputs of the feed-forward network. The attention has no biases and no
    output projection.
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

    def around(self, run, inputs, attention_bias, cache, first_only, training, beside=None):
        """Runs a block in parallel with the attention, which returns a vector for every token."""
        if cache:
            raise ValueError("A block with `PALs` has no cache. Received: cache=...")
        own = self(inputs, attention_bias=attention_bias, training=training)
        own = own if beside is None else beside + own
        outputs = run(inputs, attention_bias, cache, first_only=False, training=training, beside=own)
        return outputs[:, :1] if first_only else outputs

    def call(self, inputs, attention_bias=None, training=None):
        rows = batch_and_length(inputs, attention_bias)
        x = ops.matmul(inputs, ops.cast(self.projections.down, self.compute_dtype))
        query, key, value = self.project(x, rows)
        h = self.attend(self.scores(query, key), value, attention_bias, training)
        return ops.reshape(ops.matmul(h, ops.cast(self.projections.up, self.compute_dtype)), ops.shape(inputs))
