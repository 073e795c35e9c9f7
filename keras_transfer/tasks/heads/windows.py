"""Rows of several windows: the encoder processes each window separately, and their outputs are combined."""

from keras import ops

WINDOWS = ("mean", "max")


def cut_windows(inputs, length):
    """Returns inputs `[batch, windows * length]` as `[batch * windows, length]`.

    Rows that are not longer than a window become one window. Others are padded to full windows.

    Args:
        inputs: Dict of tensors.
        length: Integer. Number of tokens per window.

    Returns:
        Dict of tensors, and the number of windows of each row.
    """
    whole = ops.shape(inputs["padding_mask"])[1]
    static = isinstance(whole, int)
    length = min(length, max(whole, 1)) if static else ops.minimum(length, ops.maximum(whole, 1))
    windows = -(-whole // length)
    windows = max(windows, 1) if static else ops.maximum(windows, 1)

    def cut(values):
        values = ops.pad(values, [[0, 0], [0, windows * length - whole]])
        return ops.reshape(values, (-1, length))

    return {name: cut(values) for name, values in inputs.items()}, windows


def join_windows(outputs, padding_mask, windows, how):
    """Returns one output for each text from the outputs [batch * windows, units] of its windows.

    Args:
        outputs: Tensor of shape `[batch * windows, units]`.
        padding_mask: Tensor of shape `[batch * windows, length]`. A window without real tokens does not count.
        windows: Integer. Number of windows of each row.
        how: String, `"mean"` or `"max"`.
    """
    outputs = ops.reshape(outputs, (-1, windows, outputs.shape[-1]))
    counts = ops.reshape(ops.max(padding_mask, axis=1) > 0, (-1, windows, 1))
    if how == "max":
        lowest = ops.cast(-3e38, outputs.dtype)
        best = ops.max(ops.where(counts, outputs, lowest), axis=1)
        return ops.where(ops.any(counts, axis=1), best, outputs[:, 0])
    counts = ops.cast(counts, outputs.dtype)
    counts = ops.where(ops.sum(counts, axis=1, keepdims=True) > 0, counts, ops.ones_like(counts))
    return ops.sum(outputs * counts, axis=1) / ops.sum(counts, axis=1)
