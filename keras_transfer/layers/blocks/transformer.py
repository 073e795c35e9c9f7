"""The Transformer block, written once for every architecture."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import RATE, expect, expects, one_of
from keras_transfer.keras_internals import layers_within
from keras_transfer.layers.adapters.wrapper import Adapted
from keras_transfer.layers.attention.multi_head import MultiHeadAttention, batch_and_length, output_shape
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout
from keras_transfer.layers.basic.normalization import LayerNormalization
from keras_transfer.layers.blocks.feed_forward import FeedForward
from keras_transfer.layers.blocks.stateless import rematerialized, traced_once

NORMS = ("pre", "post", "input")

NORMALIZATIONS = {
    "layer": LayerNormalization,
    "layer_no_bias": functools.partial(LayerNormalization, center=False),
    "rms": keras.layers.RMSNormalization,
}

PARTS = ("attention", "cross_attention", "feed_forward")


class Residual(keras.layers.Layer):
    """The end of a sub-layer: adds its outputs to the residual. Adapters that follow a sub-layer stand in for it.

    Call arguments:
        - `inputs`: Tensor. Inputs of the sub-layer, which only adapters use.
        - `norm`: Layer, applied to the sum. Defaults to `None`.
        - `beside`: Tensor to add to the outputs. Defaults to `None`.
    """

    def call(self, outputs, residual, inputs, norm=None, beside=None):
        summed = residual + (outputs if beside is None else outputs + beside)
        return summed if norm is None else norm(summed)


@keras.saving.register_keras_serializable(package="keras_transfer")
class TransformerBlock(ConfigOfArguments, keras.layers.Layer):
    """One Transformer block: attention, then a feed-forward network, each with a residual and a normalization.

    `norm` is the place of the normalization (f is attention or the feed-forward network, with dropout):

    - `"post"`: `x = norm(x + f(x))` (Vaswani et al. 2017; BERT)
    - `"pre"`: `x = x + f(norm(x))` (GPT-2)
    - `"input"`: `x = norm(x); x = x + f(x)` (the 2019 NAACL tutorial: the residual starts from the normalized input)

    Args:
        attention: Layer, a `MultiHeadAttention` or a subclass. Its name is part of the paths of its weights.
        feed_forward: Layer from `[rows, dim]` to the same shape, such as `FeedForward` or `GatedFeedForward`.
        norm: String, one of `"post"`, `"pre"` and `"input"`. Defaults to `"post"`.
        normalization: String, `"layer"`, `"layer_no_bias"` or `"rms"` (Zhang & Sennrich 2019). Defaults to `"layer"`.
        cross_attention: Layer, a `MultiHeadAttention` with `cross_attention=True`, called between `attention` and
            `feed_forward` with `context`. Defaults to `None`.
        dropout: Float between 0 and 1. Dropout rate of the outputs that are added to the residual. Defaults to `0.0`.
        layer_norm_epsilon: Float. Epsilon of the normalizations. Defaults to `1e-12`.
        layer_drop: Float between 0 and 1. Rate at which a training step skips the block, so that its outputs are its
            inputs (LayerDrop, https://arxiv.org/abs/1909.11556). Inference never skips it. Defaults to `0.0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `context`: Tensor of shape `[batch, context_length, context_dim]`, for cross-attention.
        - `context_mask`: Tensor of shape `[batch, context_length]`. Padding mask of the context.
        - `context_bias`: Tensor of shape `[batch, 1, 1, context_length]`, in place of `context_mask`.
        - `with_context`: Boolean. Whether to run cross-attention and its norm, if there is one. Defaults to `True`.
        - `padding_mask`: Tensor of shape `[batch, keys]`. 1 for a real key, 0 for padding. Defaults to `None`.
        - `attention_bias`: Tensor of shape `[batch, 1 or heads, 1 or length, keys]`, added to the scores in place of
          all masks. Defaults to `None`.
        - `cache`: Dict of the caches of `attention` and, if there is one, `cross_attention`, from `empty_cache`.
        - `cache_index`: Integer. Position of the first token of `inputs` in the cache. Defaults to `0`.
        - `first_only`: Boolean. Whether to return the output of the first token alone, which attends to all tokens.
          Blocks with a prompt or with PALs save no work. Defaults to `False`.
        - `record`: Function that receives the weights of `attention` and the outputs of its heads. Defaults to `None`.
        - `record_cross`: The same for `cross_attention`. Defaults to `None`.
        - `record_neurons`: Function that receives the neurons of `feed_forward`, `[rows, intermediate_dim]`. Defaults
          to `None`.
        - `**kwargs`: Tensors that only `attention` receives (`attention_mask`, `relative_positions`, `memory`, ...).

    Returns:
        A tensor of shape `[batch, length, dim]`, or a tuple of it and the updated cache if `cache` was passed.

    Raises:
        ValueError: If `cross_attention` attends to its own inputs.

    Example:
    ```python
    block = keras_transfer.layers.TransformerBlock(
        keras_transfer.layers.MultiHeadAttention(num_heads=2, causal=True, name="attention"),
        keras_transfer.layers.GatedFeedForward(intermediate_dim=16, activation="silu", name="feed_forward"),
        norm="pre",
        normalization="rms",
    )
    block(keras.random.normal((1, 3, 8)))
    ```
    """

    @expects(norm=one_of(*NORMS), normalization=one_of(*NORMALIZATIONS), layer_drop=RATE)
    def __init__(
        self,
        attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        *,
        norm: str = "post",
        normalization: str = "layer",
        cross_attention: keras.layers.Layer | None = None,
        dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-12,
        layer_drop: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        fits = cross_attention is None or cross_attention.cross_attention
        expect(fits, "`cross_attention` must be built with `cross_attention=True`.", cross_attention=cross_attention)
        self.norm = norm
        self.normalization = normalization
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

        self.attention = attention
        self.attention_norm = self._norm("attention_norm")
        self.cross_attention = cross_attention
        self.cross_attention_norm = None if cross_attention is None else self._norm("cross_attention_norm")
        self.feed_forward = feed_forward
        self.feed_forward_norm = self._norm("feed_forward_norm")
        for part in PARTS:
            name = f"{part}_residual"
            setattr(self, name, None if getattr(self, part) is None else Residual(dtype=self.dtype_policy, name=name))
        self.beside = self.prompt = None  # Layers that run around the block: see `AdaptedBlock`.
        self.rematerialize = False  # `adaptation.rematerialize` sets it.
        # Encoders set it, unless one block runs several times: its gradients would be added up in another order.
        self.shares_trace = False
        self.layer_drop = layer_drop
        self.skips = keras.random.SeedGenerator() if layer_drop else None

    def _norm(self, name):
        return make_norm(self.normalization, self.layer_norm_epsilon, self.dtype_policy, name)

    def build(self, inputs_shape, context_shape=None):
        shapes = {"cross_attention": (inputs_shape, context_shape), "feed_forward": ((None, inputs_shape[-1]),)}
        for part in PARTS:
            others = [(f"{part}_{kind}", (inputs_shape,)) for kind in ("norm", "residual")]
            for name, shape in ((part, shapes.get(part, (inputs_shape,))), *others):
                layer = getattr(self, name)
                if layer is not None and not layer.built:  # An encoder and a decoder may share layers.
                    layer.build(*shape)

    def call(
        self,
        inputs,
        context=None,
        context_mask=None,
        context_bias=None,
        with_context=True,
        padding_mask=None,
        attention_bias=None,
        cache=None,
        cache_index=0,
        first_only=False,
        record=None,
        record_cross=None,
        record_neurons=None,
        training=None,
        **kwargs,
    ):
        own = {"padding_mask": padding_mask, "cache_index": cache_index, **kwargs}
        others = {"context": context, "padding_mask": context_mask, "attention_bias": context_bias}
        if record is not None or record_cross is not None:
            own, others = {**own, "record": record}, {**others, "record": record_cross}
        others = others if with_context else None

        def compute(own, others, inputs, attention_bias):
            run = functools.partial(self.run, own, others, record_neurons=record_neurons)
            for layer in (self.beside, self.prompt):
                run = run if layer is None else layer.around(run)
            options = {"cache": cache or {}, "first_only": first_only, "training": training}
            return run(inputs, attention_bias=attention_bias, **options)

        if self.rematerialize and training:
            compute = rematerialized(self, compute)
        elif self.shares_trace and training and cache is None and not first_only and record_neurons is None:
            compute = traced_once(self, compute, OF_SHARED_TRACES)
        outputs = compute(own, others, inputs, attention_bias)
        if not (self.layer_drop and training):
            return outputs
        # Both are computed: in a branch of `ops.cond`, the random numbers of dropout would not go on on JAX.
        runs = keras.random.uniform((), seed=self.skips) >= self.layer_drop
        return ops.where(runs, outputs, ops.cast(inputs[:, :1] if first_only else inputs, outputs.dtype))

    def run(
        self,
        own: Mapping,
        others: Mapping | None,
        inputs: Any,
        attention_bias: Any,
        cache: Mapping,
        first_only: bool,
        training: bool,
        beside: Any = None,
        record_neurons: Any = None,
    ) -> Any:
        """Computes what `call` returns, without preparing the arguments.

        Args:
            own: Dict of further arguments of `attention`.
            others: Dict of further arguments of `cross_attention`, or `None` to skip it.
            inputs: Tensor of shape `[batch, length, dim]`.
            attention_bias: Tensor of shape `[batch, 1 or heads, 1 or length, keys]`, or `None`.
            cache: Dict of the caches of `attention` and `cross_attention`. Empty without a cache.
            first_only: Boolean. Whether only the first token is computed.
            training: Boolean. Whether the model trains.
            beside: Tensor of shape `[batch, length, dim]`, added to the outputs of the feed-forward network. Defaults
                to `None`.
            record_neurons: Call argument of the layer. Defaults to `None`.

        Returns:
            A tensor of shape `[batch, length, dim]`, or a tuple of it and the updated cache.
        """
        updated = {}
        mask = own["padding_mask"] if attention_bias is None else attention_bias
        apart = cache or mask is None or own.get("memory") is not None  # Then, keys are not as many as queries.
        batch, length = batch_and_length(inputs, None if apart else ops.convert_to_tensor(mask))
        if own.get("memory") is not None and self.norm != "post":  # Its keys are normalized as those of the inputs.
            own = {**own, "memory": self.attention_norm(own["memory"])}

        def attend(name, x, **options):
            layer = getattr(self, name)
            if name not in cache:
                return layer(x, training=training, **options)
            x, updated[name] = layer(x, cache=cache[name], training=training, **options)
            return x

        def attention(x):
            options = {"first_only": True} if first_only else {}
            return attend("attention", x, attention_bias=attention_bias, **own, **options)

        def cross_attention(x):
            if "cross_attention" not in cache:
                return attend("cross_attention", x, **others)
            # Sequences that share a context, as in a beam search, are further queries of its only row.
            rows = ops.shape(cache["cross_attention"][0])[0]
            found = attend("cross_attention", ops.reshape(x, (rows, -1, x.shape[-1])), **others)
            return ops.reshape(found, (-1, length, x.shape[-1]))

        def feed_forward(x):
            h = ops.reshape(x, (-1, x.shape[-1]))  # TensorFlow fuses a plain matmul with the rest.
            options = {} if record_neurons is None else {"record": record_neurons}
            return ops.reshape(self.feed_forward(h, **options), (batch, 1 if first_only else length, x.shape[-1]))

        x = self._sublayer("attention", inputs, attention, training, first_only=first_only)
        if self.cross_attention is not None and others is not None:
            x = self._sublayer("cross_attention", x, cross_attention, training)
        x = self._sublayer("feed_forward", x, feed_forward, training, beside)
        return (x, updated) if cache else x

    def _sublayer(self, name, x, function, training, beside=None, first_only=False):
        """Runs one residual step, with the normalization where `self.norm` places it."""
        norm, residual = getattr(self, f"{name}_norm"), getattr(self, f"{name}_residual")
        if self.norm == "input":
            x = norm(x)
        inputs = norm(x) if self.norm == "pre" else x
        h = self.dropout(function(inputs), training=training)
        if first_only:
            x, inputs = x[:, :1], inputs[:, :1]
        return residual(h, x, inputs, norm=norm if self.norm == "post" else None, beside=beside)

    def empty_cache(self, batch_size: int, length: int, context: Any = None) -> dict:
        """Returns an empty cache for `length` tokens.

        Args:
            batch_size: Integer. Number of rows.
            length: Integer. Largest number of tokens in a row.
            context: Tensor of shape `[batch, context_length, context_dim]`, whose keys and values are added to the
                cache. Defaults to `None`.

        Returns:
            A dict from names of layers to tuples of keys and values.
        """
        cache = {"attention": self.attention.empty_cache(batch_size, length)}
        if context is not None:
            cache["cross_attention"] = self.cross_attention.context_cache(context)
        return cache

    def compute_output_spec(self, inputs, *args, cache=None, first_only=False, **kwargs):
        outputs = keras.KerasTensor(output_shape(inputs, first_only), dtype=self.compute_dtype)
        if cache is None:
            return outputs
        return outputs, keras.tree.map_structure(lambda x: keras.KerasTensor(x.shape, dtype=x.dtype), cache)

    def get_config(self):
        adapted = any(isinstance(layer, Adapted) for layer, _ in layers_within(self))
        expect(not adapted, "A block with adapters has no config of its own. Save the task or the encoder.", block=self)
        return super().get_config()

    @classmethod
    def from_config(cls, config):
        parts = {name: config[name] and keras.layers.deserialize(config[name]) for name in PARTS}
        config = {**config, **parts}
        if adapters := config.pop("adapters", {}):  # Configs of version 0.1 have them.
            raise ValueError(f"Blocks take adapters from `adaptation.add_adapters` only. Received: {list(adapters)}")
        return cls(**config)


def make_norm(normalization, layer_norm_epsilon, dtype, name):
    """Returns the layer of a kind of normalization."""
    return NORMALIZATIONS[normalization](epsilon=layer_norm_epsilon, dtype=dtype, name=name)


# A block of other layers, such as adapters or a user's, is traced by itself. So is one whose activation has a gradient
# of TensorFlow's, which is rounded differently in a function.
OF_SHARED_TRACES = {
    TransformerBlock,
    Residual,
    MultiHeadAttention,
    FeedForward,
    Dropout,
    LayerNormalization,
    keras.layers.Dense,
    keras.layers.RMSNormalization,
}
