"""The additive bias that masks attention scores, and the masks of the language models that one encoder can be."""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, one_of
from keras_transfer.layers.basic.config import ConfigOfArguments

# Softmax makes it exactly 0. It is also finite in float16, to which Keras casts the floats that a layer is called with.
HIDDEN = -3e4


def mask_bias(padding_mask=None, attention_mask=None, causal=False, window=None, length=None, num_keys=None, start=0):
    """Returns 0 where a query sees a key and a large negative number elsewhere, or None if every key is visible.

    It is a float32 tensor to be added to attention scores `[batch, heads, length, num_keys]`.

    Args:
        padding_mask: Tensor of shape `[batch, num_keys]`. 1 for a real key, 0 for padding.
        attention_mask: Tensor of shape `[batch, length, num_keys]`. 1 where a query sees a key.
        causal: Boolean. Whether a query sees only keys up to its own position.
        window: Integer. Largest distance between a query and a key that it sees.
        length: Integer. Number of queries. Required for `causal` and `window`, as is `num_keys`.
        start: Integer. Position of the first query.
    """
    visible = []
    if padding_mask is not None:
        visible.append(ops.expand_dims(ops.cast(padding_mask, "bool"), (1, 2)))
    if attention_mask is not None:
        visible.append(ops.expand_dims(ops.cast(attention_mask, "bool"), 1))
    if causal or window is not None:
        distance = (ops.arange(length) + start)[None, None, :, None] - ops.arange(num_keys)
        visible += [distance >= 0] if causal else []
        visible += [ops.abs(distance) <= window] if window is not None else []
    if not visible:
        return None
    return ops.cast(ops.where(functools.reduce(ops.logical_and, visible), 0.0, HIDDEN), "float32")


@keras.saving.register_keras_serializable(package="keras_transfer")
class AttentionBias(ConfigOfArguments, keras.layers.Layer):
    """Computes the additive attention bias of a padding mask once for all blocks of an encoder.

    Args:
        causal: Boolean. Whether a token sees only itself and earlier tokens. Defaults to `False`.
        window: Integer. Largest distance to a token that is visible, on either side. Defaults to `None`, any distance.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding.
        - `attention_mask`: Tensor of shape `[batch, length, length]`, 1 where a token sees another. Defaults to `None`.

    Returns:
        A float32 tensor of shape `[batch, 1, 1, length]`, or `[batch, 1, length, length]` with `causal`, `window` or an
        attention mask.

    Example:
    ```python
    bias = keras_transfer.layers.AttentionBias(causal=True)(np.array([[1, 1, 0]]))
    attention = keras_transfer.layers.MultiHeadAttention(num_heads=2, causal=True)
    attention(keras.random.normal((1, 3, 8)), attention_bias=bias)
    ```
    """

    def __init__(self, *, causal: bool = False, window: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.causal = causal
        self.window = window

    def call(self, padding_mask, attention_mask=None):
        length = ops.shape(padding_mask)[1]
        return mask_bias(padding_mask, attention_mask, self.causal, self.window, length=length, num_keys=length)

    def compute_output_spec(self, padding_mask, attention_mask=None):
        batch, length = padding_mask.shape
        rows = length if self.causal or self.window is not None or attention_mask is not None else 1
        return keras.KerasTensor((batch, 1, rows, length), "float32")


PATTERNS = ("bidirectional", "left_to_right", "right_to_left", "sequence_to_sequence")


def attention_pattern(pattern: str, padding_mask: np.ndarray, segment_ids: np.ndarray | None = None) -> Any:
    """Returns which tokens see which others, for the input `attention_mask` of an encoder (UniLM, Dong et al. 2019).

    One encoder with `further_inputs=["attention_mask"]` is several language models, one for each pattern:

    - `"bidirectional"`: a token sees all tokens, as in BERT.
    - `"left_to_right"` and `"right_to_left"`: a token sees itself and earlier or later tokens.
    - `"sequence_to_sequence"`: a token of the source, the first segment, sees the source. A token of the target, the
      second segment, sees the source, itself and earlier tokens of the target.

    Args:
        pattern: String, one of the above, or a list of these with one for each row.
        padding_mask: Integers [batch, length]. 1 for a real token, 0 for padding.
        segment_ids: Integers [batch, length]. 0 for the source, 1 for the target. Required for
            `"sequence_to_sequence"`. Defaults to `None`.

    Returns:
        An int32 tensor of shape `[batch, length, length]`, 1 where a token sees another. No token sees padding.

    Raises:
        ValueError: If a pattern is unknown, if there is not one for each row, or if `segment_ids` are missing.

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(
        50, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, further_inputs=["attention_mask"]
    )
    inputs = {"token_ids": np.array([[2, 7, 3, 9, 3]]), "segment_ids": np.array([[0, 0, 0, 1, 1]])}
    inputs["padding_mask"] = np.ones((1, 5), "int32")
    masks = [inputs["padding_mask"], inputs["segment_ids"]]
    visible = keras_transfer.layers.attention_pattern("sequence_to_sequence", *masks)
    encoder({**inputs, "attention_mask": np.array(visible)})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1905.03197
    """
    padding_mask = ops.cast(ops.convert_to_tensor(padding_mask), "bool")
    rows, length = padding_mask.shape
    single = isinstance(pattern, str)
    patterns = [pattern] if single else list(pattern)
    for each in patterns:
        one_of(*PATTERNS).check("pattern", each)
    expect(single or len(patterns) == rows, "There must be one pattern for each row.", pattern=pattern, rows=rows)
    length = ops.shape(padding_mask)[1] if length is None else length
    places = ops.arange(length)
    before = (places[:, None] >= places[None])[None]
    visible = {
        "bidirectional": ops.ones_like(before),
        "left_to_right": before,
        "right_to_left": ops.swapaxes(before, 1, 2),
    }
    if "sequence_to_sequence" in patterns:
        expect(segment_ids is not None, "The pattern 'sequence_to_sequence' requires `segment_ids`.", segment_ids=None)
        source = ops.equal(ops.convert_to_tensor(segment_ids), 0)
        target = ops.logical_not(source)[:, :, None]
        own = ops.logical_and(target, before)
        visible["sequence_to_sequence"] = ops.logical_or(source[:, None, :], own)
    if single:
        chosen = visible[pattern]
    else:
        shape = (1, length, length)
        parts = [visible[each] for each in patterns]
        parts = [part[row : row + 1] if len(part) > 1 else part for row, part in enumerate(parts)]
        chosen = ops.concatenate([ops.broadcast_to(part, shape) for part in parts])
    return ops.cast(ops.logical_and(chosen, padding_mask[:, None, :]), "int32")
