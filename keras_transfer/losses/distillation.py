"""The loss of distillation: the distance of a student's logits from those of its teacher."""

import keras

from keras_transfer.core.expect import POSITIVE, expects
from keras_transfer.losses.learning_without_forgetting import LearningWithoutForgettingLoss


@keras.saving.register_keras_serializable(package="keras_transfer", name="DistillationLoss")
class DistillationLoss(LearningWithoutForgettingLoss):
    """The distance of a student's logits from those of its teacher (Hinton et al. 2015).

    With p = softmax(teacher / temperature) and q = softmax(student / temperature), the loss is temperature ** 2 times
    the sum over classes of p (log p - log q). The factor keeps the size of the gradient when the temperature changes,
    so that the weight of the loss relative to that of the labels need not. The loss is that of
    `keras.distillation.LogitsDistillation` with `loss=keras.losses.KLDivergence()`, and is 0 for equal predictions.

    Use it for a second output over the logits of the student. `adaptation.distill` does so.

    Args:
        temperature: Float above 0. Values above 1 give small probabilities more weight. Defaults to `2.0`.
        reduction: String. How the losses of a batch are reduced. Defaults to `"sum_over_batch_size"`.
        name: String. Name of the loss. Defaults to `"distillation_loss"`.

    Call arguments:
        - `y_true`: Logits of the teacher `[batch, ..., classes]`.
        - `y_pred`: Logits of the student `[batch, ..., classes]`.

    Raises:
        ValueError: If the shapes differ or there are fewer than two classes.

    Example:
    ```python
    loss = keras_transfer.losses.DistillationLoss(temperature=2.0)
    teacher, student = np.array([[4.0, 0.0]], "float32"), np.array([[0.0, 0.0]], "float32")
    loss(teacher, student)  # 1.31
    loss(teacher, teacher)  # 0.0
    ```

    Source: https://arxiv.org/abs/1503.02531, section 2.
    """

    @expects(temperature=POSITIVE)
    def __init__(
        self,
        temperature: float = 2.0,
        *,
        reduction: str = "sum_over_batch_size",
        name: str = "distillation_loss",
    ):
        super().__init__(temperature, reduction=reduction, name=name)

    def call(self, y_true, y_pred):
        return self.temperature**2 * super().call(y_true, y_pred)
