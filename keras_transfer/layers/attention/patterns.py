"""Attention masks of the language models that one encoder can be (UniLM)."""

from typing import Any

import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, one_of

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
