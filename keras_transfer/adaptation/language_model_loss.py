"""An additional language-model loss of a task, with which the encoder keeps what it has learned about language."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect, expects, instance_of, number
from keras_transfer.encoders import encode
from keras_transfer.tasks import Task, TokenTargets, causal_head, check_causal
from keras_transfer.training import or_schedule


class AuxiliaryLoss(keras.layers.Layer):
    """Adds a weighted language-model loss to the losses of a model in training, and returns its outputs unchanged.

    The weight is a number, or a `LearningRateSchedule` of the number of training steps. `logits` is a layer.

    Call arguments:
        outputs: Tensor, or a structure of tensors. The outputs of the task.
        vectors: Tensor of shape `[batch, length, dim]`.
        token_ids, padding_mask: Integer tensors of shape `[batch, length]`.
    """

    def __init__(self, weight, logits, **kwargs):
        super().__init__(autocast=False, **kwargs)  # The outputs of the task keep their dtype.
        self.weight = weight
        object.__setattr__(self, "logits", logits)  # Keras must not track its weights, which the task already has.
        self.mean_over = None  # Number of tokens on this replica of TensorFlow, which weights the loss.
        if callable(weight):
            # Replicas must not wait for each other here: the next one would clear the list of losses.
            options = {"trainable": False, "aggregation": "none"}
            self.steps = self.add_weight(shape=(), dtype="int32", initializer="zeros", name="steps", **options)
        self.built = True

    def call(self, outputs, vectors, token_ids, padding_mask, training=False):
        if training:
            weight = self.weight
            if callable(weight):
                weight = weight(ops.convert_to_tensor(self.steps))
                self.steps.assign_add(1)
            scores = ops.cast(self.logits(vectors)[:, :-1], "float32")
            losses = keras.losses.sparse_categorical_crossentropy(token_ids[:, 1:], scores, from_logits=True)
            real = ops.cast(padding_mask[:, 1:], "float32")
            count = ops.sum(real)
            self.add_loss(ops.cast(weight, "float32") * ops.divide_no_nan(ops.sum(losses * real), count))
            if keras.backend.backend() == "tensorflow":
                self.mean_over = [count]
        return outputs

    def compute_output_spec(self, outputs, vectors, token_ids, padding_mask, training=False):
        return keras.tree.map_structure(lambda tensor: keras.KerasTensor(tensor.shape, tensor.dtype), outputs)


@expects(task=instance_of(Task, "a `Task`, such as a `TextClassifier`"), weight=or_schedule(number(0)))
def with_language_model_loss(task: Task, weight: Any = 0.5) -> Task:
    """Returns a task that also learns to predict the next token of its texts, with the same layers and weights.

    In training, the weighted mean cross-entropy of the next tokens is added to the loss of the task. A text is encoded
    once for both. The task and the result share all weights, so training one trains the other. The loss of `evaluate`,
    predictions, saved files and exports do not include the language-model loss: a task that was loaded from a file must
    be wrapped again before it is trained. Weights of rows and classes do not apply to the language-model loss.

    Args:
        task: `Task` with labels, such as a `TextClassifier`, with a causal encoder such as `GPT2Encoder` or
            `AWDLSTMEncoder`, whose token embeddings predict the next token as in a `CausalLM`.
        weight: Finite float of at least 0, or a `keras.optimizers.schedules.LearningRateSchedule` of the number of
            training steps, such as an `ExponentialDecay`: at first, the encoder adapts to the language of the texts,
            and later to the labels (Chronopoulou et al. 2019). Defaults to `0.5` (Radford et al. 2018).

    Returns:
        A task of the same class. It is not compiled.

    Raises:
        ValueError: If `task` is not a `Task`, predicts tokens itself, or already has such a loss; if the encoder is not
            causal, or its token embeddings differ in width from its outputs; or if `weight` is out of range.

    Example:
    ```python
    encoder = keras_transfer.encoders.TransformerEncoder(
        20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
    )
    task = keras_transfer.tasks.TextClassifier(encoder, num_classes=2)
    decay = keras.optimizers.schedules.ExponentialDecay(0.5, decay_steps=100, decay_rate=0.5)
    both = keras_transfer.adaptation.with_language_model_loss(task, weight=decay)
    both.compile("adamw")
    inputs = {"token_ids": np.array([[3, 4, 5]]), "padding_mask": np.ones((1, 3), "int32")}
    both.fit(inputs, np.array([1]), verbose=0)
    task.predict(inputs, verbose=0).shape  # (1, 2)
    ```

    Source: https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf, section 3.2;
    with a decaying weight, https://arxiv.org/abs/1902.10547
    """
    rule = (
        "`task` must have labels, such as a `TextClassifier`, since a language model predicts the tokens of its "
        "texts already."
    )
    expect(not isinstance(task.labels, TokenTargets), rule, task=task)
    has_one = any(isinstance(layer, AuxiliaryLoss) for layer in task.layers)
    expect(not has_one, "`task` already has a language-model loss. Wrap the original task.", task=task)
    encoder = task.encoder
    check_causal(encoder)
    layer = AuxiliaryLoss(weight, causal_head(encoder), dtype=encoder.dtype_policy, name="language_model_loss")
    inputs = task.input
    outputs = layer(task.output, encode(encoder).sequence, inputs["token_ids"], inputs["padding_mask"])
    return task.over(inputs, outputs, task.reader, f"{task.name}_with_language_model_loss")
