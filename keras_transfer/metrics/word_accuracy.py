"""The share of words with the right label, where some positions are no words."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_transfer")
class WordAccuracy(keras.metrics.Mean):
    """The share of words whose highest logit is that of their label, over all batches.

    Each word weighs the same, whatever the length of its batch. (`keras.metrics.Mean` of a [batch, length] array
    averages over the length first, so that words of short batches weigh more.)

    Args:
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: int [batch, length], the label of each word; below 0 where there is none (padding, special tokens, the
            later pieces of a word).
        y_pred: [batch, length, classes], logits or probabilities.
        sample_weight: [batch] or [batch, length].

    Raises:
        ValueError: the shapes are others.

    Example:
    ```python
    metric = keras_transfer.metrics.WordAccuracy()
    metric.update_state([[0, -1, 1]], [[[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]])
    float(metric.result())  # 0.5
    ```
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        true, predicted, weights = words(y_true, y_pred, sample_weight)
        super().update_state(ops.reshape(true == predicted, (-1,)), ops.reshape(weights, (-1,)))


def words(y_true, y_pred, sample_weight):
    """Returns the true and the predicted labels, int32, and weights, float32, 0 where no word is: each [batch, length].

    Raises:
        ValueError: the shapes are not [batch, length] and [batch, length, classes].
    """
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    true_shape, shape = tuple(y_true.shape), tuple(y_pred.shape)
    pairs = zip(true_shape, shape)
    if len(true_shape) != 2 or len(shape) != 3 or any(None not in pair and pair[0] != pair[1] for pair in pairs):
        raise ValueError(
            "words have labels [batch, length] and logits [batch, length, classes]. "
            f"Received: labels {true_shape} and logits {shape}"
        )
    true = ops.cast(y_true, "int32")
    weights = ops.cast(true >= 0, "float32")
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        weights = weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)
    return true, ops.cast(ops.argmax(y_pred, axis=-1), "int32"), weights
