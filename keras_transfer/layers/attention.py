"""Multi-head attention with one fused projection."""

import keras
from keras import ops

from keras_transfer.layers.dropout import Dropout


def batch_and_length(x, mask=None):
    """Returns the first two axes of sequences [batch, length, dim], for `reshape` (-1 for a batch it can infer).

    A length that is not fixed is that of the mask [batch, length]. The mask is the same for all blocks of an encoder:
    in a TensorFlow graph what is computed from its shape is computed once, and not again in each block.
    """
    if mask is not None:
        mask = ops.convert_to_tensor(mask)
        if len(mask.shape) != 2 or (None not in (mask.shape[1], x.shape[1]) and mask.shape[1] != x.shape[1]):
            raise ValueError(
                "a padding mask has the shape [batch, length] of its sequences [batch, length, dim]. "
                f"Received: a mask {tuple(mask.shape)} for {tuple(x.shape)}"
            )
    if mask is None or x.shape[1] is not None:
        return -1, ops.shape(x)[1]
    return ops.shape(mask)[0], ops.shape(mask)[1]


@keras.saving.register_keras_serializable(package="keras_transfer")
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention with several heads (Vaswani et al. 2017, equation 1), projected in one matmul.

    The weights of query, key and value lie side by side in one kernel, [dim, 3 * dim] (cross-attention: query
    alone, key and value together). Masks and softmax are computed in float32 whatever the precision.

    Args:
        num_heads: int; divides the last axis of the inputs.
        dropout: float, the share of attention weights dropped in training.
        causal: bool, a token sees itself and the ones before it only.
        cross_attention: bool, keys and values come from `context`.
        kernel_initializer: initializer of all kernels.

    Call arguments:
        inputs: [batch, length, dim].
        context: [batch, context_length, context_dim], for cross-attention.
        padding_mask: [batch, keys], 1 for a real key, 0 for padding.
        attention_mask: [batch, length, keys], 1 where a query may look at a key.
        position_bias: [batch or 1, heads, length, keys], added to the scores (relative positions).
        cache: [batch, 2, heads, keys, dim / heads], keys and values computed before; then `cache_index` is the
            position of the first token of `inputs`, and the layer returns `(outputs, cache)`.

    Returns:
        [batch, length, dim], and the updated cache where one was given.

    Raises:
        ValueError: `num_heads` does not divide the inputs' last axis; a mask is not [batch, length] of its sequences.

    Example:
    ```python
    layer = keras_transfer.layers.MultiHeadAttention(num_heads=2)
    layer(keras.random.normal((1, 3, 8)), padding_mask=[[1, 1, 0]])
    ```
    """

    def __init__(
        self,
        num_heads,
        dropout=0.0,
        causal=False,
        cross_attention=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if causal and cross_attention:
            raise ValueError(
                "cross-attention has no order to be causal in. Received: causal=True, cross_attention=True"
            )
        self.num_heads = num_heads
        self.dropout_rate = dropout
        self.causal = causal
        self.cross_attention = cross_attention
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape, context_shape=None):
        dim = inputs_shape[-1]
        if self.num_heads < 1 or dim % self.num_heads:
            raise ValueError(
                f"`num_heads` must divide the last axis of the inputs. Received: {self.num_heads} and {dim}"
            )
        self.head_dim = dim // self.num_heads
        if self.cross_attention:
            self.query = self._dense(dim, "query", inputs_shape)
            self.key_value = self._dense(2 * dim, "key_value", context_shape or inputs_shape)
        else:
            self.query_key_value = self._dense(3 * dim, "query_key_value", inputs_shape)
        self.output_dense = self._dense(dim, "output", inputs_shape)

    def _dense(self, units, name, input_shape):
        # A clone for each kernel: one initializer instance would give all of them the same numbers.
        initializer = self.kernel_initializer.clone()
        dense = keras.layers.Dense(units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name)
        dense.build(input_shape)
        return dense

    def call(
        self,
        inputs,
        context=None,
        padding_mask=None,
        attention_mask=None,
        position_bias=None,
        cache=None,
        cache_index=0,
        training=None,
    ):
        rows = batch_and_length(inputs, None if self.cross_attention or cache is not None else padding_mask)
        query, key, value = self._project(inputs, rows, context, padding_mask)
        if cache is not None:
            start = (0, 0, cache_index, 0)
            key = ops.slice_update(cache[:, 0], start, key)
            value = ops.slice_update(cache[:, 1], start, value)
            cache = ops.stack([key, value], axis=1)
        bias = self._bias(query, key, padding_mask, attention_mask, position_bias, cache_index)
        outputs = self.output_dense(self._attend(query, key, value, bias, training))
        outputs = ops.reshape(outputs, (*rows, inputs.shape[-1]))
        return outputs if cache is None else (outputs, cache)

    def _project(self, inputs, rows, context, context_mask):
        """Query, key and value as [batch, heads, length, head_dim]."""
        if not self.cross_attention:
            return self._heads(self.query_key_value, inputs, rows, 3)
        if context is None:
            raise ValueError("cross-attention needs `context`. Received: None")
        keys = batch_and_length(context, context_mask)
        return *self._heads(self.query, inputs, rows, 1), *self._heads(self.key_value, context, keys, 2)

    def _heads(self, dense, x, rows, parts):
        # On rows, as a plain matmul, TensorFlow fuses a dense layer with its bias. One transpose and `unstack`, as the
        # gradient of three slices would be three tensors of zeros and their sum.
        x = dense(ops.reshape(x, (-1, x.shape[-1])))
        x = ops.reshape(x, (*rows, parts, self.num_heads, self.head_dim))
        return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), num=parts)

    def _bias(self, query, key, padding_mask, attention_mask, position_bias, start):
        """What is added to the scores: 0 or a bias where a query may look, a large negative number where not."""
        allowed = []
        if padding_mask is not None:
            allowed.append(ops.cast(padding_mask, "bool")[:, None, None, :])
        if attention_mask is not None:
            allowed.append(ops.cast(attention_mask, "bool")[:, None, :, :])
        if self.causal:
            rows = ops.arange(ops.shape(query)[2])[:, None] + start
            allowed.append((rows >= ops.arange(ops.shape(key)[2])[None, :])[None, None])
        bias = None if position_bias is None else ops.cast(position_bias, "float32")
        for mask in allowed:
            hidden = ops.where(mask, 0.0, -1e9)
            bias = hidden if bias is None else bias + hidden
        return bias

    def _attend(self, query, key, value, bias, training):
        """What each token reads, as rows [batch * length, dim]."""
        scores = ops.matmul(query * self.head_dim**-0.5, ops.transpose(key, (0, 1, 3, 2)))
        scores = ops.cast(scores, "float32")
        weights = ops.softmax(scores if bias is None else scores + bias)
        weights = self.dropout(ops.cast(weights, self.compute_dtype), training=training)
        outputs = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return ops.reshape(outputs, (-1, self.num_heads * self.head_dim))

    def compute_output_spec(
        self, inputs, context=None, padding_mask=None, attention_mask=None, position_bias=None, cache=None, **kwargs
    ):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        return outputs if cache is None else (outputs, keras.KerasTensor(cache.shape, dtype=cache.dtype))

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout": self.dropout_rate,
            "causal": self.causal,
            "cross_attention": self.cross_attention,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
