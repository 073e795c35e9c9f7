"""The heads of a task, each with outputs and labels, and the labels of several heads as a dict."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import expect, expects, number
from keras_transfer.core.names import did_you_mean
from keras_transfer.distribute import factors_of_means, is_replica
from keras_transfer.tasks.labels import JointLabels, Labels


@expects(weight=number(0))
@dataclasses.dataclass(frozen=True)
class Head:
    """A head of a task: its outputs, and the labels from which they learn.

    A task has one head, or a dict of several heads, whose outputs and labels are dicts with the same names. Two heads
    may have the same outputs, such as logits that learn from classes and from the logits of a teacher.

    Args:
        outputs: Symbolic tensor. The output of the head's layers.
        labels: `Labels`, such as `ClassNames`. What `y` is, and the loss and the metrics for it.
        weight: Float. Factor of the loss of one of several heads, unless `compile` receives `loss_weights`. Defaults to
            `1.0`.

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(30, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    logits = keras.layers.Dense(2, name="logits")(encoder.output["pooled_output"])
    head = keras_transfer.tasks.Head(logits, keras_transfer.tasks.ClassNames(["bad", "good"]))
    task = keras_transfer.tasks.Task(encoder, keras_transfer.tasks.TextReader(None), head)
    task.label_names  # ["bad", "good"]
    ```
    """

    outputs: Any
    labels: Labels
    weight: float = 1.0


class NamedLabels(Labels):
    """Several labels for each row, one for each head of a task, as a dict with the names of the heads.

    The outputs of the task are a dict with the same names. Losses and metrics in `compile` are dicts, too. A head that
    is missing in a dict of losses has its default loss; `None` turns its training off. A head whose objective draws its
    targets needs no labels. If only one head does, these may be passed without a dict.
    """

    one_of = False

    def __init__(self, labels):
        joint = [name for name, each in labels.items() if isinstance(each, JointLabels)]
        rule = "`JointLabels` learn from all outputs of a task, so its only head must have them."
        expect(not joint, rule, heads=joint)
        self.labels = labels
        self.given = [name for name, each in labels.items() if not (each.optional and each.made_inputs)]

    @property
    def optional(self):
        return not self.given

    @property
    def made_inputs(self):
        return tuple(name for each in self.labels.values() for name in each.made_inputs)

    def loss(self):
        return {name: labels.loss() for name, labels in self.labels.items()}

    def metrics(self):
        return {name: labels.metrics() for name, labels in self.labels.items()}

    def compiled(self, loss, metrics, weighted_metrics):
        given = (loss, metrics, weighted_metrics)
        for argument, values in zip(("loss", "metrics", "weighted_metrics"), given):
            unknown = [name for name in values if name not in self.labels] if isinstance(values, dict) else []
            if unknown:
                raise ValueError(
                    f"`{argument}` must be a dict with the names of heads, {list(self.labels)}."
                    f"{did_you_mean(unknown[0], self.labels)} Received: {unknown[0]!r}"
                )
        parts = {}
        for name in self.labels:
            # A head that is missing in a dict of losses has its default loss.
            own = [
                values.get(name, default) if isinstance(values, dict) else values
                for values, default in zip(given, ("auto", None, None))
            ]
            parts[name] = self._of(name, lambda each, own: each.compiled(*own), own, "Head")
        return tuple(
            None if values is None else {name: part[index] for name, part in parts.items()}
            for index, values in enumerate(given)
        )

    def encode(self, labels):
        found = self._each(labels, lambda each, values: each.encode(values))
        # Keras would treat lists as structures of several labels.
        return {
            name: np.asarray(values) if isinstance(values, (list, tuple)) else values for name, values in found.items()
        }

    def check(self, labels, loss=None):
        losses = loss if isinstance(loss, dict) else {}
        for name, values in self._checked(labels).items():
            self._of(name, lambda each, values, name=name: each.check(values, losses.get(name)), values)

    def check_inputs(self, inputs, labels=None):
        for name, each in self.labels.items():
            each.check_inputs(inputs, labels.get(name) if isinstance(labels, dict) else None)

    def targets(self, data, task):
        if data.contents.prepare is not None or not (data.has_labels or self.optional):
            return data
        drawn = {name: each for name, each in self.labels.items() if each.made_inputs}
        is_complete = isinstance(data.labels, dict) and data.labels.keys() == self.labels.keys()
        if drawn and is_complete != ({*self.made_inputs} <= {*data.inputs}):
            raise ValueError(
                f"Prepared data must have both `{'`, `'.join(self.made_inputs)}` and a dict of targets, or neither. "
                f"Then the objective makes them. Received: inputs {list(data.inputs)}, and labels of type "
                f"{type(data.labels).__name__}"
            )
        if is_complete:
            return data
        draws = {name: each.draws(task) for name, each in drawn.items()}

        def draw(inputs, random, labels=None):
            found = dict(labels) if isinstance(labels, dict) else dict.fromkeys(self.given, labels)
            for name, each in draws.items():
                inputs, found[name] = each(inputs, random)
            return inputs, {name: found[name] for name in self.labels}

        return data.with_targets(draw, next(iter(drawn.values())).objective.seed)

    def weight_of(self, x, y, sample_weight):
        return 1  # `for_loss` weights the loss of each head separately.

    def for_loss(self, x, y, sample_weight):
        """Returns the labels and weights of each head. On replicas of TensorFlow, each loss is then a mean over all."""
        names = [name for name in self.labels if name in y]
        given = sample_weight
        if not isinstance(sample_weight, dict):  # Keras on torch changes the weights of a loss in place.
            given = {name: None if sample_weight is None else keras.ops.copy(sample_weight) for name in names}
        found = {name: self.labels[name].for_loss(x, y[name], given.get(name)) for name in names}
        y = {**y, **{name: labels for name, (labels, _) in found.items()}}
        weights = {name: of_head for name, (_, of_head) in found.items()}
        if not is_replica():
            return y, weights
        factors = factors_of_means(*(self.labels[name].weight_of(x, y[name], weights[name]) for name in names))
        for name, factor in zip(names, factors):
            of_head = weights[name]
            if of_head is None:
                of_head = keras.ops.ones(keras.ops.shape(y[name])[: 1 if self.labels[name].places is None else 2])
            weights[name] = factor * keras.ops.cast(of_head, "float32")
        return y, weights

    def decode(self, outputs):
        """Returns a dict of the answers of each head, given what `predict` returns."""
        return {name: each.decode(outputs[name]) for name, each in self.labels.items()}

    def _each(self, labels, function):
        return {name: self._of(name, function, values) for name, values in self._checked(labels).items()}

    def _of(self, name, function, values, what="Labels of"):
        try:
            return function(self.labels[name], values)
        except ValueError as error:
            raise ValueError(f"{what} {name!r}: {error}") from None

    def _checked(self, labels):
        if hasattr(labels, "columns") and not callable(labels.columns):  # The labels are a table.
            labels = {str(name): labels[name] for name in labels.columns}
        if not isinstance(labels, dict) and len(self.given) == 1:
            labels = {self.given[0]: labels}
        if not isinstance(labels, dict) or labels.keys() not in (self.labels.keys(), {*self.given}):
            received = f"the keys {list(labels)}" if isinstance(labels, dict) else type(labels).__name__
            raise ValueError(f"Labels must be a dict with the keys {self.given}. Received: {received}")
        return labels
