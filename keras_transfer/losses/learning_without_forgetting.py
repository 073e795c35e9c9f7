"""A loss that keeps a model's predictions near its earlier ones: learning without forgetting."""

import keras
from keras import ops

from keras_transfer.core.expect import POSITIVE, expect, expects
from keras_transfer.core.saved_arguments import SavedByArguments


@keras.saving.register_keras_serializable(package="keras_transfer", name="PredictionPenalty")
class LearningWithoutForgettingLoss(SavedByArguments, keras.losses.Loss):
    """The distance of logits from recorded ones: the loss of learning without forgetting (Li and Hoiem 2016).

    With p = softmax(recorded / temperature) and q = softmax(current / temperature), the loss is the sum over classes of
    p (log p - log q). This is the paper's cross-entropy minus the entropy of p, which is constant. Its gradient is the
    same, (q - p) / temperature, and it is 0 where nothing has changed. As in the paper, and unlike in distillation, it
    is not multiplied by the square of the temperature.

    The loss expects logits, and cannot distinguish them from probabilities. It is computed in float32. `loss_weights`
    in `compile` corresponds to the paper's lambda. The paper uses 1.

    Use it for a separate output whose targets are what `predict` returned before training. This output is either the
    head of the old task, next to the new task's head, or the same logits a second time, as in the example. Name the
    outputs in a dict, because Keras confuses the outputs of a list if both are the same tensor. The models share their
    weights: train the model with two outputs, then use and save the other one. With a task, use the inputs that its
    preprocessor returns. For outputs that are not logits of classes, use `"mse"` instead.

    Args:
        temperature: Float above 0. Values above 1 give small probabilities more weight. Defaults to `2.0`.
        reduction: String. How the losses of a batch are reduced. Defaults to `"sum_over_batch_size"`.
        name: String. Name of the loss. Defaults to `"learning_without_forgetting_loss"`.

    Call arguments:
        - `y_true`: Recorded logits `[batch, ..., classes]`.
        - `y_pred`: Logits `[batch, ..., classes]`.

    Raises:
        ValueError: If the shapes differ or there are fewer than two classes.

    Example:
    ```python
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))  # a trained model
    x, labels = np.random.default_rng(0).normal(size=(16, 4)), np.arange(16) % 3
    before = model.predict(x)

    both = keras.Model(model.input, {"labels": model.output, "before": model.output})
    losses = {
        "labels": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "before": keras_transfer.losses.LearningWithoutForgettingLoss(),
    }
    both.compile("adam", losses, loss_weights={"labels": 1.0, "before": 0.5}, metrics={"labels": "accuracy"})
    both.fit(x, {"labels": labels, "before": before})
    model.predict(x)
    ```

    Source: https://arxiv.org/abs/1606.09282, equations 2 and 3.
    """

    @expects(temperature=POSITIVE)
    def __init__(
        self,
        temperature: float = 2.0,
        *,
        reduction: str = "sum_over_batch_size",
        name: str = "learning_without_forgetting_loss",
    ):
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self.temperature = float(temperature)

    def call(self, y_true, y_pred):
        _check_shapes(tuple(y_true.shape), tuple(y_pred.shape))
        recorded = ops.log_softmax(y_true / self.temperature, axis=-1)
        current = ops.log_softmax(y_pred / self.temperature, axis=-1)
        return ops.sum(ops.exp(recorded) * (recorded - current), axis=-1)


def _check_shapes(recorded, current):
    if len(recorded) != len(current) or not all(a == b or None in (a, b) for a, b in zip(recorded, current)):
        raise ValueError(
            "Targets must be recorded logits of the same shape as the outputs, [batch, ..., classes]. "
            f"Received: targets of shape {recorded}, outputs of shape {current}"
        )
    rule = "Outputs must be logits for at least two classes. For other outputs, use the loss 'mse'."
    expect(len(current) >= 2 and current[-1] != 1, rule, y_pred=current)
