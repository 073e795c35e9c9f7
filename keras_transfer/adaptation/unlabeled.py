"""Training on texts with and without labels: a second task, whose loss is how far two answers for a text differ."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.adaptation.self_training import AUGMENT, augment_texts
from keras_transfer.core.expect import (
    FLAG,
    FRACTION,
    POSITIVE,
    RATE,
    expect,
    expects,
    instance_of,
    integer,
    list_of,
    number,
    one_of,
    optional,
)
from keras_transfer.core.names import argument_names, check_arguments
from keras_transfer.data import Batches, WithLabeled, part_batches
from keras_transfer.distribute import replicas_of
from keras_transfer.encoders import above, token_states
from keras_transfer.keras_internals import unrecorded
from keras_transfer.layers import SequencePooling
from keras_transfer.losses import IntegerLabelsLoss
from keras_transfer.tasks import Task, TextClassifier, TokenClassifier
from keras_transfer.training import gradient_of

# === Methods ===


class UnlabeledMethod:
    """Base class of the methods of `fit_with_unlabeled`."""

    annealing: str | None = None

    def _rows(self, task, texts, data):
        """Returns texts without labels as `Batches`, given them as `Batches` of the task."""
        return data

    def _models(self, task):
        """Returns what else answers for a text: nothing but the task, by default."""

    def _losses(self, task, inputs):
        """Returns the loss of each row or token of a batch, given the task as it trains."""
        raise NotImplementedError(f"{type(self).__name__} must implement `_losses`.")


def divergence(target, outputs):
    """Returns the Kullback-Leibler divergence between the softmax of logits `[..., classes]` and that of others."""
    target, outputs = ops.log_softmax(target), ops.log_softmax(outputs)
    return ops.sum(ops.exp(target) * (target - outputs), axis=-1)


@expects(
    augment=AUGMENT,
    rate=RATE,
    temperature=POSITIVE,
    threshold=FRACTION,
    annealing=one_of(None, "linear", "log", "exp"),
)
@dataclasses.dataclass(frozen=True)
class UDA(UnlabeledMethod):
    """Unsupervised data augmentation: the answer for a changed text learns from the answer for the text.

    Only answers of which the task is sure count, and they are sharpened. The loss is the Kullback-Leibler divergence,
    as a mean over all texts of a batch.

    Args:
        augment: How texts are changed, once before the training, as for `augment_texts`. A list has a text for each
            text without a label. Defaults to `"word_dropout"`.
        rate: Float between 0 and 1. Fraction of words that are changed. Defaults to `0.1`.
        temperature: Float above 0. The logits to learn from are divided by it. Defaults to `0.4`.
        threshold: Float between 0 and 1. Probability of the best class, before it is sharpened, above which a text
            counts. Defaults to `0.8`.
        annealing: `"linear"`, `"log"` or `"exp"`: texts with labels count only while the probability of their label is
            below a threshold, which rises to 1 over the run. `"exp"` is for very few labels. Defaults to `None`, all
            texts count.
        seed: Integer. Seed of the changes. Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Example:
    ```python
    method = keras_transfer.adaptation.UDA("tf_idf", rate=0.2, annealing="exp")
    ```

    Source: https://arxiv.org/abs/1904.12848
    """

    augment: str | Callable | Sequence = "word_dropout"
    rate: float = 0.1
    temperature: float = 0.4
    threshold: float = 0.8
    annealing: str | None = None
    seed: int | None = None

    def _rows(self, task, texts, data):
        rule = "`UDA` requires a `TextClassifier`, because other words have other labels. Use `VAT` or `CVT`."
        expect(isinstance(task, TextClassifier), rule, task=task)
        changed = augment_texts(texts, self.augment, rate=self.rate, seed=self.seed)
        return part_batches((texts, changed), preprocessor=task.preprocessor, batch_size=data.options.batch_size)

    def _losses(self, task, inputs):
        clean, changed = ({name: values[:, place] for name, values in inputs.items()} for place in (0, 1))
        with unrecorded():
            target = ops.stop_gradient(task(clean, training=False))
        sure = ops.max(ops.softmax(target), axis=-1) > self.threshold
        return ops.cast(sure, "float32") * divergence(target / self.temperature, task(changed, training=True))


class AnnealedSignal(IntegerLabelsLoss):
    """Cross-entropy of the texts of a batch whose label is not more probable than a threshold, which rises to 1."""

    def __init__(self, schedule, iterations, steps, **kwargs):
        super().__init__(**kwargs)
        self.schedule, self.iterations, self.steps = schedule, iterations, steps

    def of_one_hot(self, y_true, y_pred):
        done = ops.cast(self.iterations, "float32") / self.steps
        share = {"linear": done, "log": 1 - ops.exp(-5 * done), "exp": ops.exp(5 * (done - 1))}[self.schedule]
        chance = 1 / y_pred.shape[-1]
        losses = keras.losses.categorical_crossentropy(y_true, y_pred, from_logits=True)
        counts = ops.cast(ops.exp(-losses) <= share * (1 - chance) + chance, losses.dtype)
        return losses * counts * (ops.sum(ops.ones_like(counts)) / ops.maximum(ops.sum(counts), 1))


@expects(epsilon=POSITIVE, xi=POSITIVE, power_iterations=integer(1), normalized=FLAG)
@dataclasses.dataclass(frozen=True)
class VAT(UnlabeledMethod):
    """Virtual adversarial training: the answer should stay the same where a small change of the text moves it most.

    The change is added to the embeddings of the tokens (`encoder.hidden_states[0]`). The gradient of the divergence
    finds its direction, with one more forward and backward pass. The texts with labels may be the only ones, as in
    DeBERTa's SiFT.

    Args:
        epsilon: Float above 0. Length of the change, over all tokens of a text together. Defaults to `5.0`.
        xi: Float above 0. Length of the random change at which the gradient is computed. Much shorter ones are rounded
            away in `mixed_bfloat16`. Defaults to `3.0`.
        power_iterations: Integer. How often the direction is improved. Defaults to `1`.
        normalized: Boolean. Whether the change of a token is multiplied by the standard deviation of its embedding, as
            if the embeddings were normalized. Defaults to `True`.

    Example:
    ```python
    method = keras_transfer.adaptation.VAT(epsilon=2.0)
    ```

    Source: https://arxiv.org/abs/1704.03976, https://arxiv.org/abs/1605.07725; SiFT: https://arxiv.org/abs/2006.03654
    """

    epsilon: float = 5.0
    xi: float = 3.0
    power_iterations: int = 1
    normalized: bool = True

    def _models(self, task):
        states, upper = above(task, advice="`VAT` changes it. Use `CVT`.")
        return keras.Model(task.input, states), upper

    def _losses(self, task, inputs):
        lower, upper = task.models
        inputs = {name: ops.convert_to_tensor(inputs[name]) for name in task.input}
        others, states = [*inputs.values()], lower(inputs, training=False)
        fixed = ops.stop_gradient(states)
        with unrecorded():
            target = ops.stop_gradient(upper([fixed, *others], training=False))
        real = ops.cast(inputs["padding_mask"], "float32")[..., None] if "padding_mask" in inputs else 1
        scale = real * ops.std(ops.cast(fixed, "float32"), axis=-1, keepdims=True) if self.normalized else real

        def changed(states, change, training):
            return upper([states + ops.cast(scale * change, states.dtype), *others], training=training)

        def distance(change):
            return ops.sum(divergence(target, changed(fixed, change, False)))

        direction = real * keras.random.normal(ops.shape(states), dtype="float32", seed=task.noise)
        for _ in range(self.power_iterations):
            direction = ops.stop_gradient(gradient_of(distance, scaled(direction, self.xi))[0])
        return divergence(target, changed(states, scaled(direction, self.epsilon), True))


def scaled(vectors, length):
    """Returns vectors `[batch, tokens, dim]`, scaled so that those of a text together have a length."""
    largest = ops.max(ops.abs(vectors), axis=(1, 2), keepdims=True) + 1e-12  # The squares of tiny values would be 0.
    norm = largest * ops.sqrt(ops.sum(ops.square(vectors / largest), axis=(1, 2), keepdims=True) + 1e-6)
    return length * vectors / norm


@expects(layers=optional(list_of(integer(0), 1)), directions=FLAG)
@dataclasses.dataclass(frozen=True)
class CVT(UnlabeledMethod):
    """Cross-view training: heads that see a part of what the task sees learn from its answer.

    So the layers below learn to find the answer in less. The loss is the sum of the divergences of all heads, which are
    discarded afterwards. The head of the task, and the layers above those of the views, learn from labels alone.

    Args:
        layers: List of integers. The hidden states that are views: 0 for the embeddings, and from 1 for the outputs of
            the blocks. Defaults to `None`, all blocks but the last one.
        directions: Boolean. Whether each half of the vectors is a view, for encoders that concatenate the states of
            both directions, such as ELMo. For words, the states before and after each word are views, too (future and
            past). Defaults to `False`.

    Example:
    ```python
    method = keras_transfer.adaptation.CVT(layers=[2, 4])
    ```

    Source: https://arxiv.org/abs/1809.08370
    """

    layers: Sequence | None = None
    directions: bool = False

    def _models(self, task):
        encoded, of_words = token_states(task.encoder), len(task.output.shape) == 3
        states = encoded.hidden_states
        layers = range(1, len(states) - 1) if self.layers is None else self.layers
        rule = f"`layers` of `CVT` must be hidden states from 0 to {len(states) - 1} of the encoder, at least one."
        expect(layers and max(layers) < len(states), rule, layers=list(layers))
        views, heads = {}, {}
        for layer in layers:
            if not self.directions:
                views[f"layer_{layer}"] = states[layer]
                continue
            forward, backward = ops.split(states[layer], 2, axis=-1)
            views |= {f"forward_{layer}": forward, f"backward_{layer}": backward}
            if of_words:
                views[f"future_{layer}"] = ops.pad(forward[:, :-1], [[0, 0], [1, 0], [0, 0]])
                views[f"past_{layer}"] = ops.pad(backward[:, 1:], [[0, 0], [0, 1], [0, 0]])
        for name, view in views.items():
            if not of_words:
                view = SequencePooling("mean", name=f"{name}_pooling")(view, padding_mask=encoded.mask)
            heads[name] = keras.layers.Dense(task.output.shape[-1], dtype="float32", name=f"{name}_logits")
            views[name] = heads[name](view)
        task.further_heads = tuple(heads.values())
        return keras.Model(task.input, views)

    def _losses(self, task, inputs):
        inputs = {name: inputs[name] for name in task.input}
        with unrecorded():
            target = ops.stop_gradient(task(inputs, training=False))
        return sum(divergence(target, view) for view in task.models(inputs, training=True).values())


# === The step ===


class WithUnlabeled(Task):
    """A task over the layers of another one, which also has the loss of a method for the texts without labels.

    It saves the other task, which is what has learned.
    """

    def __init__(self, task, method, weight):
        options = {"inputs": task.input, "scalar_mix": task.scalar_mix}
        super().__init__(task.encoder, copy.copy(task.reader), task.heads["head"], **options)
        self.method, self.weight, self.noise = method, weight, keras.random.SeedGenerator()
        # Keras on JAX hides the number of steps of the optimizer from a loss.
        self.iterations = keras.Variable(0, dtype="int32", trainable=False, name="iterations")
        self.unlabeled_loss = keras.metrics.Mean("unlabeled_loss")
        object.__setattr__(self, "task", task)  # Keras must not track what has the same layers.
        object.__setattr__(self, "models", method._models(self))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if "unlabeled" not in x:
            return loss
        inputs, *labels = x["unlabeled"]
        losses = self.method._losses(self, inputs)
        counts = ops.cast(labels[0] >= 0, losses.dtype) if labels else ops.ones_like(losses)  # Words have places.
        found = ops.sum(losses * counts) / ops.maximum(ops.sum(counts), 1)
        self.unlabeled_loss.update_state(ops.stop_gradient(found))
        self.iterations.assign(self.iterations + 1)
        return loss + self.weight * found

    def evaluate(self, *args, **kwargs):
        found = super().evaluate(*args, **kwargs)
        return {name: value for name, value in found.items() if name != self.unlabeled_loss.name}

    def save(self, *args, **kwargs):
        self.task.save(*args, **kwargs)

    def save_weights(self, *args, **kwargs):
        self.task.save_weights(*args, **kwargs)


@expects(
    task=instance_of((TextClassifier, TokenClassifier), "a `TextClassifier` or a `TokenClassifier`"),
    method=instance_of(UnlabeledMethod, "`UDA()`, `VAT()` or `CVT()`"),
    weight=number(0),
    epochs=integer(1),
    steps_per_epoch=optional(integer(1)),
)
def fit_with_unlabeled(
    task: Task,
    x: Any,
    y: Any,
    unlabeled: Any = None,
    *,
    method: UnlabeledMethod,
    weight: float = 1.0,
    sample_weight: Any = None,
    validation_data: Any = None,
    epochs: int = 1,
    steps_per_epoch: int | None = None,
    batch_size: int | None = None,
    optimizer: Any = "auto",
    loss: Any = "auto",
    metrics: Any = "auto",
    **kwargs: Any,
) -> keras.callbacks.History:
    """Trains a classifier on texts with labels and on texts without, whose loss is how far two answers differ.

    Each step has a batch of both kinds, and the sum of both losses. The answer to learn from is that of the task
    without dropout, and has no gradient. An epoch reads each text without a label once. The texts with labels begin
    again when all were read. The task itself is not compiled. Callbacks such as `ModelCheckpoint` save it.

    Args:
        task: `TextClassifier` of one class for each text, or `TokenClassifier` without `crf`.
        x: Texts, pairs of texts or sentences with labels, in memory, as for `fit`.
        y: Labels.
        unlabeled: Texts without labels, in the same form. For `UDA`, single texts. Defaults to `None`, the texts of
            `x`, such as for SiFT.
        method: `UDA`, `VAT` or `CVT`.
        weight: Float of at least 0. Factor of the loss of texts without labels. Defaults to `1.0`.
        sample_weight: Array of floats. Weights of the texts with labels. Defaults to `None`.
        validation_data: Tuple `(texts, labels)`, to evaluate after each epoch. Defaults to `None`.
        epochs: Integer. Number of epochs. Defaults to `1`.
        steps_per_epoch: Integer. Number of batches in an epoch. Defaults to `None`, for all texts without labels.
        batch_size: Integer. Number of texts of each kind in a batch. Defaults to `None`, for 32.
        optimizer: Keras optimizer, or its name. Defaults to `"auto"`, as for `Task.compile`.
        loss: Loss of the labels. Defaults to `"auto"`, the loss of the task.
        metrics: List of metrics of the labels. Defaults to `"auto"`, the metrics of the task.
        **kwargs: Other arguments of `fit`, such as `callbacks` and `verbose`.

    Returns:
        Keras's `History`. `loss` is the sum of both, and `unlabeled_loss` the second one without its `weight`.

    Raises:
        ValueError: If the task has `multi_label`, `siamese`, `windows` or `crf`, or is on several devices; if data is
            not in memory, or `unlabeled` has another form than `x`; if `steps_per_epoch` is more than all batches; if
            `UDA` gets pairs or words; if the encoder does not fit `VAT` or the layers of `CVT`; or if `annealing` is
            combined with another loss.

    Example:
    ```python
    task = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    more = ["A fine film.", "It never ends.", "Great fun."]
    texts, method = ["What a film!", "What a bore."], keras_transfer.adaptation.UDA(rate=0.2)
    keras_transfer.adaptation.fit_with_unlabeled(task, texts, ["good", "bad"], more, method=method)
    task.predict_labels(["A fine film."])
    ```

    Source: https://arxiv.org/abs/1904.12848, https://arxiv.org/abs/1704.03976, https://arxiv.org/abs/1809.08370
    """
    known = [*argument_names(fit_with_unlabeled), *inspect.signature(keras.Model.fit).parameters]
    check_arguments("fit_with_unlabeled", kwargs, known)
    options = {name: getattr(task, name, None) for name in ("multi_label", "siamese", "windows", "crf")}
    rule = "`task` must predict one class of each text or word, without `multi_label`, `siamese`, `windows` and `crf`."
    expect(not any(options.values()), rule, **options)
    texts = x if unlabeled is None else unlabeled
    if task.reader.accepts(texts):
        texts = task.reader.columns(texts)
    data = task.dataset(x, y, sample_weight, batch_size=batch_size, shuffle=True)
    # Placeholders mark the words.
    rows = task.dataset(texts, task.labels.placeholders(texts), batch_size=batch_size, shuffle=True)
    rule = "`x` and `unlabeled` must be in memory, and both single texts, both pairs, or both sentences."
    kinds = {"x": data.kind, "unlabeled": rows.kind} if all(isinstance(part, Batches) for part in (data, rows)) else {}
    expect(kinds and len({*kinds.values()}) == 1, rule, **(kinds or {"x": x, "unlabeled": unlabeled}))
    rule = "Texts without labels train on one device."
    expect(replicas_of(task)[0] == 1, rule, replicas=replicas_of(task)[0])
    both = WithLabeled(method._rows(task, texts, rows), data)
    if steps_per_epoch is not None:
        rule = "`steps_per_epoch` must be at most the number of batches of texts without labels. Use more `epochs`."
        expect(steps_per_epoch <= len(both), rule, steps_per_epoch=steps_per_epoch, batches=len(both))
        both = both.take(steps_per_epoch)
    model = WithUnlabeled(task, method, weight)
    if method.annealing is not None:
        expect(loss == "auto", "`annealing` of `UDA` has a loss of its own. Leave `loss` out.", loss=loss)
        loss = AnnealedSignal(method.annealing, model.iterations, epochs * len(both))
    model.compile(optimizer, loss, metrics)
    return model.fit(both, epochs=epochs, validation_data=validation_data, **kwargs)
