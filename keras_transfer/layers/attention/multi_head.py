"""Multi-head attention with one fused projection."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.layers.attention.bias import mask_bias
from keras_transfer.layers.attention.rotary import rotate
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout
from keras_transfer.layers.basic.initializers import make_dense


def batch_and_length(x, mask=None):
    """Returns the first two axes of `x` `[batch, length, dim]` for `reshape`, where -1 is a batch size to be inferred.

    An unknown length is taken from the mask, a padding mask or an attention bias, because all blocks of an encoder
    share it: TensorFlow computes what depends on its shape once per graph, not once per block.
    """
    if mask is None or x.shape[1] is not None or mask.shape[0] == 1:
        return -1, ops.shape(x)[1]
    return ops.shape(mask)[0], ops.shape(mask)[-1]


def output_shape(inputs, first_only):
    """Returns the shape of what attention or a block returns for `inputs`, `[batch, length, dim]`."""
    return (inputs.shape[0], 1, *inputs.shape[2:]) if first_only else inputs.shape


@keras.saving.register_keras_serializable(package="keras_transfer")
class MultiHeadAttention(ConfigOfArguments, keras.layers.Layer):
    """Scaled dot-product attention with several heads (Vaswani et al. 2017), projected in one matmul.

    The weights of query, key and value are concatenated in one kernel. (In cross-attention, the query has its own
    kernel.) A call runs `project`, `scores` and `attend`. A subclass overrides the method in which it differs. Masks
    and softmax are always computed in float32.

    Args:
        num_heads: Integer. Number of heads of the queries.
        num_key_value_heads: Integer, a divisor of `num_heads`. Number of heads of keys and values, each of which serves
            several query heads (Ainslie et al. 2023). Defaults to `None`, the same as `num_heads`.
        head_dim: Integer. Width of a head. Defaults to `None`, the inputs' width divided by `num_heads`.
        use_bias: Boolean. Whether the projections have a bias. Defaults to `True`.
        scale: Float. Factor of the scores. Defaults to `None`, which is `head_dim ** -0.5`.
        causal: Boolean. Whether a token sees only itself and earlier tokens. Defaults to `False`.
        window: Integer. Largest distance to a token that is visible, on either side. Defaults to `None`, any distance.
        dropout: Float between 0 and 1. Dropout rate of the attention weights. Defaults to `0.0`.
        cross_attention: Boolean. Whether keys and values come from `context`. Defaults to `False`.
        kernel_initializer: Initializer of all kernels. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `context`: Tensor of shape `[batch, context_length, context_dim]`, for cross-attention.
        - `padding_mask`: Tensor of shape `[batch, keys]`. 1 for a real key, 0 for padding.
        - `attention_mask`: Tensor of shape `[batch, length, keys]`. 1 where a query sees a key.
        - `attention_bias`: Tensor of shape `[batch, 1 or heads, 1 or length, keys]`, added to the scores in place of
          all masks, `causal` and `window` included (see `AttentionBias`).
        - `relative_positions`: Tensor that `scores` receives. This class adds it to the scores; it broadcasts to
          `[batch, heads, length, keys]`.
        - `rotary`: Tuple of cosines and sines that rotate queries and keys (see `RotaryPositions`).
        - `memory`: Tensor of shape `[batch, memory_length, dim]`. Vectors of the tokens before `inputs`, which are
          further keys and values in front of theirs, as in Transformer-XL. All call arguments for keys, and `rotary`,
          count them. Without `cache` and `first_only`. Defaults to `None`.
        - `cache`: Tuple of keys and values, each of shape `[batch, key_value_heads, keys, head_dim]`, from
          `empty_cache` or, in cross-attention, from `context_cache`. With it, the layer returns `(outputs, cache)`.
        - `cache_index`: Integer. Position of the first token of `inputs` in the cache. Defaults to `0`.
        - `first_only`: Boolean. Whether only the first token is a query, so that the outputs have length 1. All tokens
          are keys. Subclasses with their own `scores` do not support this. Defaults to `False`.
        - `record`: Function that receives the attention weights, a float32 tensor of shape `[batch, heads, length,
          keys]`, and the outputs of the heads before the output projection, a tensor of shape `[batch, length, heads *
          head_dim]`. The outputs are the same. Defaults to `None`.

    Returns:
        A tensor of shape `[batch, length, dim]`, or a tuple of it and the updated cache if `cache` was passed.

    Raises:
        ValueError: If the numbers of heads do not divide each other or the width, if `cross_attention` is combined with
            `causal` or `window`, if `attention_bias` is combined with a mask, or if a mask has another length.

    Example:
    ```python
    layer = keras_transfer.layers.MultiHeadAttention(num_heads=2)
    layer(keras.random.normal((1, 3, 8)), padding_mask=[[1, 1, 0]])
    ```
    """

    @expects(num_heads=integer(1), num_key_value_heads=integer(1), head_dim=integer(1))
    def __init__(
        self,
        num_heads: int,
        *,
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        use_bias: bool = True,
        scale: float | None = None,
        causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        cross_attention: bool = False,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        within = causal or window is not None
        rule = "`causal` and `window` cannot be combined with `cross_attention=True`."
        expect(not (cross_attention and within), rule, causal=causal, window=window)
        self.num_heads = num_heads
        self.num_key_value_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        rule = "`num_heads` must be a multiple of `num_key_value_heads`."
        is_multiple = num_heads % self.num_key_value_heads == 0
        expect(is_multiple, rule, num_heads=num_heads, num_key_value_heads=num_key_value_heads)
        self.head_dim = head_dim
        self.use_bias = use_bias
        self.scale = scale
        self.causal = causal
        self.window = window
        self.cross_attention = cross_attention
        self.prefix = None  # The opening for further keys and values: a layer of the four tensors below.
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape, context_shape=None):
        dim = inputs_shape[-1]
        if self.head_dim is None:
            rule = "`num_heads` must divide the last axis of the inputs unless `head_dim` is given."
            expect(dim % self.num_heads == 0, rule, num_heads=self.num_heads, inputs_shape=inputs_shape)
            self.head_dim = dim // self.num_heads
        queries, keys = self.num_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        if self.cross_attention:
            self.query = make_dense(self, queries, "query", inputs_shape)
            self.key_value = make_dense(self, 2 * keys, "key_value", context_shape or inputs_shape)
        else:
            self.query_key_value = make_dense(self, queries + 2 * keys, "query_key_value", inputs_shape)
        self.output_dense = make_dense(self, dim, "output", (*inputs_shape[:-1], queries))

    def call(
        self,
        inputs,
        context=None,
        padding_mask=None,
        attention_mask=None,
        attention_bias=None,
        relative_positions=None,
        rotary=None,
        memory=None,
        cache=None,
        cache_index=0,
        first_only=False,
        record=None,
        training=None,
    ):
        if self.cross_attention and cache is None:
            expect(context is not None, "Cross-attention requires `context` or `cache`.", context=None, cache=None)
        if memory is not None:
            context = ops.concatenate([ops.cast(memory, inputs.dtype), inputs], axis=1)
        bias = self._bias(inputs, context, padding_mask, attention_mask, attention_bias, cache, cache_index)
        rows = batch_and_length(inputs, bias if context is None and cache is None else None)
        if memory is not None:
            query, key, value = self.project(context, batch_and_length(context, bias))
        elif not self.cross_attention:
            query, key, value = self.project(inputs, rows)
        elif cache is None:
            query, key, value = self.project(inputs, rows, context, batch_and_length(context, bias))
        else:
            query, (key, value) = self.project(inputs, rows), cache
        if rotary is not None:
            query, key = rotate(query, rotary), rotate(key, rotary)
        if memory is not None:
            query = query[:, :, ops.shape(memory)[1] :]
        if cache is not None and not self.cross_attention:
            start = (0, 0, cache_index, 0)
            cache = key, value = tuple(ops.slice_update(old, start, new) for old, new in zip(cache, (key, value)))
        if first_only:
            rows, query = (rows[0], 1), query[:, :, :1]
            bias, relative_positions = (x if x is None else x[..., :1, :] for x in (bias, relative_positions))
        if self.prefix is not None:
            key, value, bias, relative_positions = self.prefix((key, value, bias, relative_positions))
        if self.num_key_value_heads < self.num_heads:
            key, value = (ops.repeat(x, self.num_heads // self.num_key_value_heads, axis=1) for x in (key, value))
        scores = self.scores(query, key, relative_positions)
        outputs = self.attend(scores, value, bias, training)
        if record is not None:
            record(self.attention_weights(scores, bias), ops.reshape(outputs, (*rows, outputs.shape[-1])))
        outputs = ops.reshape(self.output_dense(outputs), (*rows, inputs.shape[-1]))
        return outputs if cache is None else (outputs, cache)

    def project(self, inputs: Any, rows: tuple, context: Any = None, context_rows: tuple | None = None) -> tuple:
        """Projects the inputs to queries, keys and values.

        Args:
            inputs: Tensor of shape `[batch, length, dim]`.
            rows: Tuple of the batch size and the length of `inputs`, for `reshape`.
            context: Tensor of shape `[batch, context_length, context_dim]`, for cross-attention. Defaults to `None`.
            context_rows: Tuple of the batch size and the length of `context`. Defaults to `None`.

        Returns:
            A tuple of query, key and value, each of shape `[batch, heads, length, head_dim]`. In cross-attention
            without a context, the query alone.
        """
        heads, key_heads = self.num_heads, self.num_key_value_heads
        if not self.cross_attention:
            return self._split_heads(self.query_key_value, inputs, rows, (heads, key_heads, key_heads))
        [query] = self._split_heads(self.query, inputs, rows, (heads,))
        if context is None:
            return query
        return query, *self._split_heads(self.key_value, context, context_rows, (key_heads, key_heads))

    def scores(self, query: Any, key: Any, relative_positions: Any = None) -> Any:
        """Computes the attention scores, before any mask.

        Args:
            query: Tensor of shape `[batch, heads, length, head_dim]`.
            key: Tensor of shape `[batch, heads, keys, head_dim]`.
            relative_positions: Call argument of the layer. Defaults to `None`.

        Returns:
            A float32 tensor of shape `[batch, heads, length, keys]`.
        """
        scale = self.head_dim**-0.5 if self.scale is None else self.scale
        scores = ops.cast(ops.matmul(query * scale, ops.transpose(key, (0, 1, 3, 2))), "float32")
        return scores if relative_positions is None else scores + ops.cast(relative_positions, "float32")

    def attention_weights(self, scores: Any, attention_bias: Any = None) -> Any:
        """Computes the softmax of the scores.

        Args:
            scores: Tensor of shape `[batch, heads, length, keys]`.
            attention_bias: Tensor that is added to the scores. Defaults to `None`.

        Returns:
            A float32 tensor of shape `[batch, heads, length, keys]`.
        """
        return ops.softmax(scores if attention_bias is None else scores + ops.cast(attention_bias, "float32"))

    def attend(self, scores: Any, value: Any, attention_bias: Any = None, training: bool | None = None) -> Any:
        """Computes the mean of the values, weighted by the softmax of the scores.

        Args:
            scores: Tensor of shape `[batch, heads, length, keys]`.
            value: Tensor of shape `[batch, heads, keys, head_dim]`.
            attention_bias: Tensor that is added to the scores. Defaults to `None`.
            training: Boolean. Whether to apply dropout to the weights. Defaults to `None`.

        Returns:
            A tensor of shape `[batch * length, heads * head_dim]`.
        """
        weights = ops.cast(self.attention_weights(scores, attention_bias), self.compute_dtype)
        weights = self.dropout(weights, training=training)
        outputs = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return ops.reshape(outputs, (-1, self.num_heads * self.head_dim))

    def _split_heads(self, dense, x, rows, heads):
        # On rows, a dense layer is a plain matmul, which TensorFlow fuses with its bias.
        x = dense(ops.reshape(x, (-1, x.shape[-1])))
        if len(set(heads)) == 1:
            # One transpose and `unstack`: the gradient of three slices would be three tensors of zeros and their sum.
            x = ops.reshape(x, (*rows, len(heads), heads[0], self.head_dim))
            return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), num=len(heads))
        x = ops.transpose(ops.reshape(x, (*rows, sum(heads), self.head_dim)), (0, 2, 1, 3))
        return ops.split(x, np.cumsum(heads)[:-1].tolist(), axis=1)

    def _bias(self, inputs, context, padding_mask, attention_mask, attention_bias, cache, cache_index):
        """Returns the given bias, or the bias of the masks if there is none."""
        if attention_bias is not None:
            masks = {"padding_mask": padding_mask, "attention_mask": attention_mask}
            none = padding_mask is None and attention_mask is None
            expect(none, "`attention_bias` replaces the masks.", **masks)
            return attention_bias
        keys = inputs if context is None else context
        if padding_mask is not None:
            padding_mask = ops.convert_to_tensor(padding_mask)
            shape = padding_mask.shape
            unequal = cache is None and None not in (shape[-1], keys.shape[1]) and shape[-1] != keys.shape[1]
            rule = "A padding mask must have the shape [batch, length] of its sequences [batch, length, dim]."
            expect(len(shape) == 2 and (not unequal), rule, padding_mask=shape, sequences=keys.shape)
        length = num_keys = None
        if self.causal or self.window is not None:
            _, length = batch_and_length(inputs, padding_mask if cache is None and context is None else None)
            num_keys = length if cache is None else ops.shape(cache[0])[2]
            if context is not None:  # A memory, and the inputs behind it.
                num_keys = ops.shape(context)[1]
                cache_index = num_keys - length
        return mask_bias(padding_mask, attention_mask, self.causal, self.window, length, num_keys, cache_index)

    def empty_cache(self, batch_size: int, length: int) -> tuple:
        """Returns an empty cache for `length` tokens.

        Args:
            batch_size: Integer. Number of rows.
            length: Integer. Largest number of tokens in a row.

        Returns:
            A tuple of keys and values, tensors of zeros of shape `[batch, key_value_heads, length, head_dim]`.
        """
        shape = (batch_size, self.num_key_value_heads, length, self.head_dim)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)

    def context_cache(self, context: Any) -> tuple:
        """Computes the keys and values of a context once for all steps of a decoder.

        Args:
            context: Tensor of shape `[batch, context_length, context_dim]`.

        Returns:
            A tuple of keys and values, each of shape `[batch, key_value_heads, context_length, head_dim]`.
        """
        heads = (self.num_key_value_heads, self.num_key_value_heads)
        context = ops.cast(ops.convert_to_tensor(context), self.compute_dtype)
        return tuple(self._split_heads(self.key_value, context, batch_and_length(context), heads))

    def compute_output_spec(self, inputs, *args, cache=None, first_only=False, **kwargs):
        outputs = keras.KerasTensor(output_shape(inputs, first_only), dtype=self.compute_dtype)
        return outputs if cache is None else (outputs, tuple(keras.KerasTensor(x.shape, dtype=x.dtype) for x in cache))
