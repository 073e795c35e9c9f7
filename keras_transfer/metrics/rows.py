"""Conversion of labels, logits and weights of any shape to rows, which the metrics count."""

from keras import ops

from keras_transfer.core.expect import expect


def agree(first, second):
    """Returns whether two shapes are equal where both are known."""
    return len(first) == len(second) and all(None in pair or pair[0] == pair[1] for pair in zip(first, second))


def count_classes(true_shape, shape):
    """Returns the number of classes, and whether a row may have several of them."""
    true_shape, shape = tuple(true_shape), tuple(shape)
    single = len(shape) == 1 or shape[-1] == 1
    rows = shape if len(shape) == 1 else shape[:-1]
    several = not single and len(true_shape) == len(shape) and true_shape[-1] in (shape[-1], None)
    extra = len(true_shape) == len(rows) + 1 and (several or true_shape[-1] == 1)
    if not agree(true_shape[:-1] if extra else true_shape, rows):
        raise ValueError(
            "`y_true` must have the shape [batch] (integers) or [batch, classes] (several labels per row), and "
            "`y_pred` [batch, classes] or, for two classes, [batch, 1]. "
            f"Received: {true_shape} and {shape}"
        )
    expect(single or shape[-1] is not None, "The number of classes of `y_pred` must be known.", shape=shape)
    return 2 if single else shape[-1], several


def class_rows(y_true, y_pred, sample_weight):
    """Returns labels, logits and weights of single rows, whatever axes precede the classes' axis.

    The labels are int32 [rows] or float32 [rows, classes]. The logits of a row whose label does not exist are NaN.

    Args:
        y_true: Integers `[batch, ...]`, or ones and zeros `[batch, ..., classes]`. Rows with a negative integer do not
            count.
        y_pred: Logits `[batch, ..., classes]`. For two classes, also `[batch]` or `[batch, 1]`, the logit of class 1.
        sample_weight: Weights `[batch]` or `[batch, ...]`, or None.
    """
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.cast(y_pred, "float32")
    classes, several = count_classes(y_true.shape, y_pred.shape)
    if len(y_pred.shape) == 1 or y_pred.shape[-1] == 1:
        y_pred = y_pred if len(y_pred.shape) > 1 else y_pred[:, None]
        y_pred = ops.concatenate([ops.zeros_like(y_pred), y_pred], axis=-1)
    weights = ops.reshape(row_weights(sample_weight, ops.shape(y_pred)[:-1]), (-1,))
    logits = ops.reshape(y_pred, (-1, classes))
    if several:
        return ops.reshape(ops.cast(y_true, "float32"), (-1, classes)), logits, weights
    true = ops.reshape(ops.cast(y_true, "int32"), (-1,))
    logits = ops.where((true < classes)[:, None], logits, float("nan"))
    return true, logits, ops.where(true >= 0, weights, 0.0)


def row_weights(sample_weight, shape):
    """Returns float32 weights of the given shape, 1 if there are none. Weights `[batch]` apply to the whole row."""
    if sample_weight is None:
        return ops.ones(shape, "float32")
    weights = ops.cast(sample_weight, "float32")
    rank = len(shape)
    if len(weights.shape) == rank + 1 and weights.shape[-1] == 1:
        weights = weights[..., 0]
    weights = ops.reshape(weights, (*ops.shape(weights), *[1] * (rank - len(weights.shape))))
    return ops.broadcast_to(weights, shape)
