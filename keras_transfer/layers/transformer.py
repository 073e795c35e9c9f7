"""The transformer block, written once for every architecture."""

import keras
from keras import ops

from keras_transfer.layers.activations import get_activation, serialize_activation
from keras_transfer.layers.attention import MultiHeadAttention, batch_and_length
from keras_transfer.layers.dropout import Dropout

NORMS = ("pre", "post", "input")
SLOTS = ("attention", "cross_attention", "feed_forward")


@keras.saving.register_keras_serializable(package="keras_transfer")
class TransformerBlock(keras.layers.Layer):
    """One transformer block: attention, then a feed-forward network, each with a residual and a layer norm.

    `norm` says where the layer norm stands (f is attention or the feed-forward network, with dropout):

    - `"post"`: `x = norm(x + f(x))` (Vaswani et al. 2017; BERT)
    - `"pre"`: `x = x + f(norm(x))` (GPT-2)
    - `"input"`: `x = norm(x); x = x + f(x)` (the 2019 NAACL tutorial: the residual starts from the normalised input)

    Args:
        num_heads: int, attention heads.
        intermediate_dim: int, width of the feed-forward network.
        dropout: float, dropout of what is added to the residual.
        attention_dropout: float, dropout of the attention weights.
        activation: name or callable; `"gelu"` is exact, `"gelu_tanh"` its approximation.
        norm: `"post"`, `"pre"` or `"input"`.
        causal: bool, a token sees only itself and what is before it.
        cross_attention: bool, a second attention that reads `context`, between the two.
        layer_norm_epsilon: float.
        kernel_initializer: initializer of all kernels.
        adapters: dict from a slot (`"attention"`, `"cross_attention"`, `"feed_forward"`) to a layer that is applied
            to that sub-layer's output before the residual (Houlsby et al. 2019).

    Call arguments: `inputs` [batch, length, dim]; `context` and `context_mask` for cross-attention; `padding_mask`,
        `attention_mask`, `position_bias`, `cache`, `cache_index` as in `MultiHeadAttention`.

    Returns:
        [batch, length, dim], and the updated cache where one was given.

    Raises:
        ValueError: an unknown `norm` or slot; a mask is not [batch, length] of its sequences.

    Example:
    ```python
    block = keras_transfer.layers.TransformerBlock(num_heads=2, intermediate_dim=16, norm="pre", causal=True)
    block(keras.random.normal((1, 3, 8)))
    ```
    """

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        dropout=0.0,
        attention_dropout=0.0,
        activation="gelu",
        norm="post",
        causal=False,
        cross_attention=False,
        layer_norm_epsilon=1e-12,
        kernel_initializer="glorot_uniform",
        adapters=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if norm not in NORMS:
            raise ValueError(f"`norm` must be one of {NORMS}. Received: {norm!r}")
        adapters = dict(adapters or {})
        slots = [slot for slot in SLOTS if cross_attention or slot != "cross_attention"]
        if unknown := sorted(set(adapters) - set(slots)):
            raise ValueError(f"`adapters` may fill the slots {slots}. Received: {unknown}")
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout_rate = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.norm = norm
        self.causal = causal
        self.has_cross_attention = cross_attention
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.adapters = adapters
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

        self.attention = self._attention("attention", causal=causal)
        self.attention_norm = self._norm("attention_norm")
        if cross_attention:
            self.cross_attention = self._attention("cross_attention", cross_attention=True)
            self.cross_attention_norm = self._norm("cross_attention_norm")
        self.feed_forward_norm = self._norm("feed_forward_norm")

    def _attention(self, name, **options):
        return MultiHeadAttention(
            self.num_heads,
            dropout=self.attention_dropout,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    def _norm(self, name):
        return keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)

    def build(self, inputs_shape, context_shape=None):
        self.attention.build(inputs_shape)
        self.attention_norm.build(inputs_shape)
        if self.has_cross_attention:
            self.cross_attention.build(inputs_shape, context_shape)
            self.cross_attention_norm.build(inputs_shape)
        wide_shape = (*inputs_shape[:-1], self.intermediate_dim)
        activation = get_activation(self.activation)
        self.feed_forward_in = self._dense(self.intermediate_dim, "feed_forward_in", inputs_shape, activation)
        self.feed_forward_out = self._dense(inputs_shape[-1], "feed_forward_out", wide_shape)
        self.feed_forward_norm.build(inputs_shape)
        for adapter in self.adapters.values():
            if not adapter.built:
                adapter.build(inputs_shape)

    def _dense(self, units, name, input_shape, activation=None):
        dense = keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(input_shape)
        return dense

    def call(
        self,
        inputs,
        context=None,
        context_mask=None,
        padding_mask=None,
        attention_mask=None,
        position_bias=None,
        cache=None,
        cache_index=0,
        training=None,
    ):
        updated = []
        rows = batch_and_length(inputs, padding_mask if cache is None else None)

        def attention(x):
            options = {"attention_mask": attention_mask, "position_bias": position_bias, "training": training}
            if cache is None:
                return self.attention(x, padding_mask=padding_mask, **options)
            x, new_cache = self.attention(x, padding_mask=padding_mask, cache=cache, cache_index=cache_index, **options)
            updated.append(new_cache)
            return x

        def cross_attention(x):
            return self.cross_attention(x, context=context, padding_mask=context_mask, training=training)

        def feed_forward(x):
            h = ops.reshape(x, (-1, x.shape[-1]))  # a plain matmul, which TensorFlow fuses with bias and activation
            return ops.reshape(self.feed_forward_out(self.feed_forward_in(h)), (*rows, x.shape[-1]))

        x = self._sublayer(inputs, attention, self.attention_norm, "attention", training)
        if self.has_cross_attention:
            x = self._sublayer(x, cross_attention, self.cross_attention_norm, "cross_attention", training)
        x = self._sublayer(x, feed_forward, self.feed_forward_norm, "feed_forward", training)
        return (x, updated[0]) if updated else x

    def _sublayer(self, x, function, norm, slot, training):
        """One residual step, with the layer norm where `self.norm` wants it."""
        if self.norm == "input":
            x = norm(x)
        h = function(norm(x) if self.norm == "pre" else x)
        h = self.dropout(h, training=training)
        if slot in self.adapters:
            h = ops.cast(self.adapters[slot](h), self.compute_dtype)
        return norm(x + h) if self.norm == "post" else x + h

    def compute_output_spec(
        self,
        inputs,
        context=None,
        context_mask=None,
        padding_mask=None,
        attention_mask=None,
        position_bias=None,
        cache=None,
        **kwargs,
    ):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        return outputs if cache is None else (outputs, keras.KerasTensor(cache.shape, dtype=cache.dtype))

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout,
            "activation": serialize_activation(self.activation),
            "norm": self.norm,
            "causal": self.causal,
            "cross_attention": self.has_cross_attention,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "adapters": {slot: keras.layers.serialize(layer) for slot, layer in self.adapters.items()},
        }

    @classmethod
    def from_config(cls, config):
        adapters = {slot: keras.layers.deserialize(layer) for slot, layer in config["adapters"].items()}
        return cls(**{**config, "adapters": adapters})
