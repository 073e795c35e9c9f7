"""Cross-entropies of logits for integer labels, which Keras has only for one-hot labels."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import FRACTION, expects, number
from keras_transfer.core.saved_arguments import SavedByArguments


class IntegerLabelsLoss(SavedByArguments, keras.losses.Loss):
    """Base class of losses of logits for integer labels, made from losses that Keras has only for one-hot labels.

    A subclass implements `of_one_hot`. Tasks recognize it by its base class: they check labels and metrics for it, and
    leave out unused places, such as padding. Its config consists of the constructor's arguments, which are attributes.

    Args:
        reduction: String. How the losses of a batch are reduced. Defaults to `"sum_over_batch_size"`.
        name: String. Name of the loss. Defaults to `None`, the name of the class.
        dtype: Dtype of the computation. Defaults to `None`, Keras's global float type.

    Call arguments:
        - `y_true`: Integers `[batch]` or `[batch, length]`.
        - `y_pred`: Logits with one more axis, `[..., classes]`.

    Example:
    ```python
    class BrierLoss(keras_transfer.losses.IntegerLabelsLoss):
        def of_one_hot(self, y_true, y_pred):
            return keras.ops.sum((keras.ops.softmax(y_pred) - y_true) ** 2, axis=-1)

    float(BrierLoss()([0, 1], [[2.0, 0.0], [1.0, 0.0]]))  # 0.549
    ```
    """

    takes_integers = True  # `tasks` check labels and metrics by it.

    def __init__(self, *, reduction: str = "sum_over_batch_size", name: str | None = None, dtype: Any = None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, y_true, y_pred):
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
            y_true = ops.squeeze(y_true, -1)
        return self.of_one_hot(
            ops.one_hot(ops.cast(y_true, "int32"), ops.shape(y_pred)[-1], dtype=y_pred.dtype), y_pred
        )

    def of_one_hot(self, y_true: Any, y_pred: Any) -> Any:
        """Computes the loss for labels that are one-hot vectors.

        Args:
            y_true: Tensor `[..., classes]`.
            y_pred: Tensor `[..., classes]`. Logits.

        Returns:
            A tensor of shape `[...]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `of_one_hot`.")


@keras.saving.register_keras_serializable(package="keras_transfer", name="SparseFocalCrossentropy")
class SparseCategoricalFocalCrossentropy(IntegerLabelsLoss):
    """Focal loss of logits for integer labels, which gives less weight to texts that are already classified well.

    The cross-entropy of a text is multiplied by `(1 - p) ** gamma`, where `p` is the probability of its label. Use it
    if one class is rare. Its mean is smaller than the mean of the cross-entropy, so the two cannot be compared.

    Args:
        gamma: Float of at least 0. Larger values give less weight to well-classified texts. `0` gives the
            cross-entropy. Defaults to `2.0`.
        reduction: String. How the losses of a batch are reduced. Defaults to `"sum_over_batch_size"`.
        name: String. Name of the loss. Defaults to `"sparse_categorical_focal_crossentropy"`.
        dtype: Dtype of the computation. Defaults to `None`, Keras's global float type.

    Call arguments:
        - `y_true`: Integers `[batch]`.
        - `y_pred`: Logits `[batch, classes]`.

    Example:
    ```python
    loss = keras_transfer.losses.SparseCategoricalFocalCrossentropy(gamma=2.0)
    float(loss([0, 1], [[2.0, 0.0], [1.0, 0.0]]))  # 0.35
    ```

    Source: https://arxiv.org/abs/1708.02002
    """

    @expects(gamma=number(0))
    def __init__(
        self,
        gamma: float = 2.0,
        *,
        reduction: str = "sum_over_batch_size",
        name: str = "sparse_categorical_focal_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype)
        self.gamma = gamma

    def of_one_hot(self, y_true: Any, y_pred: Any) -> Any:
        return keras.losses.categorical_focal_crossentropy(
            y_true, y_pred, alpha=1.0, gamma=self.gamma, from_logits=True
        )


@keras.saving.register_keras_serializable(package="keras_transfer")
class SmoothedCrossentropy(IntegerLabelsLoss):
    """Cross-entropy of logits for integer labels with smoothed targets.

    The label of a text has the probability `1 - label_smoothing + label_smoothing / classes`, and each other class has
    `label_smoothing / classes`. Use it if some labels are wrong, or to avoid overconfident probabilities.

    Args:
        label_smoothing: Float from 0 to 1. Fraction of the probability that all classes share. Defaults to `0.1`.
        reduction: String. How the losses of a batch are reduced. Defaults to `"sum_over_batch_size"`.
        name: String. Name of the loss. Defaults to `"smoothed_crossentropy"`.
        dtype: Dtype of the computation. Defaults to `None`, Keras's global float type.

    Call arguments:
        - `y_true`: Integers `[batch]`.
        - `y_pred`: Logits `[batch, classes]`.

    Example:
    ```python
    loss = keras_transfer.losses.SmoothedCrossentropy(label_smoothing=0.1)
    float(loss([0, 1], [[2.0, 0.0], [1.0, 0.0]]))  # 0.745
    ```

    Source: https://arxiv.org/abs/1512.00567, section 7.
    """

    @expects(label_smoothing=FRACTION)
    def __init__(
        self,
        label_smoothing: float = 0.1,
        *,
        reduction: str = "sum_over_batch_size",
        name: str = "smoothed_crossentropy",
        dtype: Any = None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype)
        self.label_smoothing = label_smoothing

    def of_one_hot(self, y_true: Any, y_pred: Any) -> Any:
        return keras.losses.categorical_crossentropy(
            y_true, y_pred, from_logits=True, label_smoothing=self.label_smoothing
        )
