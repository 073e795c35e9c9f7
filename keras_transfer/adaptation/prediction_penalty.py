"""Keeping a model's predictions near what it predicted before: learning without forgetting."""

import math

import keras
from keras import ops

from keras_transfer.adaptation.rates import is_number


@keras.saving.register_keras_serializable("keras_transfer")
class PredictionPenalty(keras.losses.Loss):
    """How far logits have gone from recorded ones: the loss of learning without forgetting (Li and Hoiem 2016).

    With p = softmax(recorded / temperature) and q = softmax(now / temperature) it is the sum over classes of
    p (log p - log q). That is the paper's cross-entropy less the entropy of p, which is constant: the gradients are the
    same, (q - p) / temperature, and where nothing has changed it is 0. As in the paper, and other than in distillation,
    it is not multiplied by the square of the temperature.

    Both are logits, never probabilities, which it cannot tell apart. It is computed in float32. It weighs as much as
    `loss_weights` says (the paper's lambda, 1 there).

    It is the loss of an output of its own, whose targets are what `predict` gave before training: the old task's head
    beside the new one's, over one encoder; or, to stay near while the same task is learnt on, the same logits a second
    time, as in the example. Name outputs by a dict: Keras mixes up a list's where both are one tensor. Losses, labels
    and metrics of the other output are as ever. The weights are those of the model that was there before: train the
    model of two outputs, then predict with, and save, the other. A task's inputs are what its preprocessor makes of
    texts. For outputs that are no logits of classes, `"mse"` in its place keeps them near.

    Args:
        temperature: float above 0; above 1 it gives small probabilities more to say.
        reduction: as in Keras.
        name: str.

    Inputs: recorded logits as `y_true` and logits as `y_pred`, both [batch, ..., classes].

    Raises:
        ValueError: the temperature is not above 0; the shapes differ, or there are fewer than two classes.

    Example:
    ```python
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))  # which has learnt something before
    x, labels = np.random.default_rng(0).normal(size=(16, 4)), np.arange(16) % 3
    before = model.predict(x)

    both = keras.Model(model.input, {"labels": model.output, "before": model.output})
    losses = {
        "labels": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "before": keras_transfer.adaptation.PredictionPenalty(),
    }
    both.compile("adam", losses, loss_weights={"labels": 1.0, "before": 0.5}, metrics={"labels": "accuracy"})
    both.fit(x, {"labels": labels, "before": before})
    model.predict(x)
    ```

    Source: https://arxiv.org/abs/1606.09282, equations 2 and 3.
    """

    def __init__(self, temperature=2.0, reduction="sum_over_batch_size", name="prediction_penalty"):
        super().__init__(name=name, reduction=reduction, dtype="float32")
        real = is_number(temperature)
        if not real or not 0 < temperature < math.inf:
            raise ValueError(f"`temperature` must be a number above 0. Received: {temperature!r}")
        self.temperature = float(temperature)

    def call(self, y_true, y_pred):
        _check_shapes(tuple(y_true.shape), tuple(y_pred.shape))
        recorded = ops.log_softmax(y_true / self.temperature, axis=-1)
        now = ops.log_softmax(y_pred / self.temperature, axis=-1)
        return ops.sum(ops.exp(recorded) * (recorded - now), axis=-1)

    def get_config(self):
        return {"temperature": self.temperature, "reduction": self.reduction, "name": self.name}


def _check_shapes(recorded, now):
    fit = len(recorded) == len(now) and all(a == b or None in (a, b) for a, b in zip(recorded, now))
    if not fit:
        raise ValueError(
            "targets are recorded logits, of the outputs' shape [batch, ..., classes]. "
            f"Received: targets of shape {recorded}, outputs of shape {now}"
        )
    if len(now) < 2 or now[-1] == 1:
        raise ValueError(
            f"logits of at least two classes are needed; for others there is 'mse'. Received: outputs of shape {now}"
        )
