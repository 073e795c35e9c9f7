"""The labels of a task: how users write them, which loss and metrics match them, and answers in the same form."""

import numbers
import types
from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_transfer.core.arrays import expect_each, to_array, whole_column
from keras_transfer.data import whole_labels
from keras_transfer.tasks.keras_losses import check_loss, check_metrics, default_metrics, from_names, takes_vectors
from keras_transfer.tasks.used_places import of_used_places


class Labels:
    """Base class of the labels of a task. It passes arrays to the loss unchanged.

    Labels are the component of a `Task` that turns what users pass as `y` into arrays. They also define what depends on
    the kind of labels: the default loss and metrics, `class_weight`, and the answers in users' terms. This class has no
    default loss and checks nothing.

    Attributes:
        names: List of strings. Class names, in the order of the logits. `None` without classes.
        one_of: Boolean. Whether the outputs are logits whose softmax is the likelihood of labels.
        named_losses: Dict from additional names that `compile(loss=...)` accepts to functions that return the losses.
        named_metrics: Dict from additional names that `compile(metrics=...)` accepts to functions that return metrics.
        are_ids: Boolean. Whether labels are token ids, which `targets` makes for data without labels. The loss must
            then accept integers.
        of_places: Boolean. Whether labels are integers at places, where negative ones are unused.
        by_weight: Boolean. Whether labels are integers at places, where those with the sample weight 0 are unused.
        own_loss: Boolean. Whether the task computes its loss and its metrics itself, without those of `compile`.
        weighs_itself: Boolean. Whether the loss is a sum of means over different things, such as tokens and rows, which
            the task itself weights on replicas.
        per_row: Boolean. Whether each row has one label, so that labels `[rows, 1]` mean labels `[rows]`.
        optional: Boolean. Whether raw data needs no labels, because `targets` makes them.
        made_inputs: Tuple of strings. Names of the model's inputs that `targets` makes.
        problem_type: String. Name of the problem in `config.json` of a checkpoint, or `None`.
    """

    names = None
    one_of = True
    are_ids = of_places = by_weight = False
    per_row = optional = False
    own_loss = weighs_itself = False
    made_inputs: tuple[str, ...] = ()
    named_losses: Mapping[str, Callable] = types.MappingProxyType({})
    named_metrics: Mapping[str, Callable] = types.MappingProxyType({})
    problem_type: str | None = None

    # === Compiling ===

    def loss(self):
        """Returns the loss that `compile(loss="auto")` uses."""
        raise ValueError("The task has no default loss. Pass `loss` to `compile`. Received: loss='auto'")

    def metrics(self):
        """Returns the metrics that `compile(metrics="auto")` uses."""
        return []

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns the loss, the metrics and the weighted metrics of `compile` in the form that Keras expects."""
        if self.own_loss:
            given = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
            for argument, value in given.items():
                if value is not None and not (isinstance(value, str) and value == "auto"):
                    raise ValueError(
                        "The task computes its own loss and metrics. Leave `loss`, `metrics`, `weighted_metrics` and "
                        f"`loss_weights` out. Received: {argument}={value!r}"
                    )
            return None, None, None
        loss = from_names(loss, {"auto": self.loss, **self.named_losses}, keras.losses.get, "loss")
        metrics = default_metrics(self.metrics(), loss) if isinstance(metrics, str) and metrics == "auto" else metrics
        metrics, weighted_metrics = self.made_metrics(metrics), self.made_metrics(weighted_metrics)
        check_loss(loss)
        if (self.of_places or self.are_ids) and takes_vectors(loss):
            raise ValueError(
                "Labels are integers [batch, length], so `loss` must accept integers. Use "
                f"`SparseCategoricalCrossentropy(from_logits=True)`, or one of {['auto', *self.named_losses]}. "
                f"Received: loss={loss!r:.100}"
            )
        check_metrics([metrics, weighted_metrics], loss)
        if self.of_places or self.are_ids:
            loss = keras.tree.map_structure(lambda each: of_used_places(each, self.by_weight), loss)
        return loss, metrics, weighted_metrics

    def made_metrics(self, metrics):
        """Returns metrics in the same structure, with an object for each name in `named_metrics`."""
        return from_names(metrics, self.named_metrics, keras.metrics.get, "metric")

    # === The user's labels ===

    def encode(self, labels):
        """Returns labels in memory in the form that the loss expects. If they need no change, they are not copied."""
        return whole_labels(labels, self.names)

    def check(self, labels, loss=None):
        """Raises a `ValueError` if encoded labels in memory cannot be labels of this task.

        Subclasses override this. By default, all labels are valid.
        """

    def check_inputs(self, inputs, labels=None):
        """Raises a `ValueError` if prepared inputs that `targets` would otherwise make are invalid for this task.

        Subclasses whose `targets` make targets override this. By default, all inputs are valid.
        """

    def class_weight(self, weights, labels=None):
        """Returns `class_weight` in the form that Keras expects, given all encoded labels if they are in memory."""
        raise ValueError(
            "`class_weight` requires labels that are classes, one for each text or word. Use `sample_weight` to weight "
            "rows, or `loss='focal'` for rare labels of a classifier with `multi_label=True`. "
            f"Received: class_weight={weights!r:.100}"
        )

    def targets(self, data, task):
        """Returns `Batches` with the targets that the task makes from raw data."""
        return data

    def weight_of(self, x, y, sample_weight):
        """Returns the number of values in the mean that is the loss of a batch: its rows, or the places that are used.

        Replicas of TensorFlow, each of which has some of the rows, are weighted by it.
        """
        return 1 if self.weighs_itself else self.count_of(x, y, sample_weight)

    def count_of(self, x, y, sample_weight):
        """Returns the number by which `evaluate` weights the loss of a batch: what its mean is over, or its rows."""
        if self.by_weight and sample_weight is not None:
            return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(sample_weight) != 0, "float32"))
        if self.of_places and not self.weighs_itself:
            return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(y) >= 0, "float32"))
        return keras.ops.shape(keras.tree.flatten(x)[0])[0]

    def weights_on_replicas(self, x, y, sample_weight):
        """Returns the sample weights of the loss on replicas of TensorFlow, which several heads weight separately."""
        return sample_weight

    # === Answers ===

    def decode(self, outputs):
        """Returns what `predict` returns as answers in the form in which users write labels, one for each row."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `decode`. Use the method of the task that answers."
        )

    def response(self, outputs):
        """Returns the answer of an exported model, a dict of tensors, given the outputs of the model."""
        raise NotImplementedError(f"{type(self).__name__} must implement `response`.")

    # === Rows and words ===

    def placeholders(self, columns):
        """Returns arbitrary valid labels for raw data that cannot be batched without labels, or `None`."""
        return None

    def mask(self, labels, sample_weight):
        """Returns labels of a batch without placeholders, and sample weights that are 0 where placeholders were."""
        return labels, sample_weight


def flat_labels(labels):
    """Returns labels `[rows, 1]` as `[rows]`, and any others unchanged.

    Keras on TensorFlow otherwise fails if a model is trained with labels of both shapes, because the rank of the labels
    of a compiled step is then unknown.
    """
    labels = whole_column(labels)
    shape = getattr(labels, "shape", None)
    try:
        shape = np.shape(labels) if shape is None else shape
    except ValueError:  # Rows differ in length, which the check of labels reports.
        return labels
    if len(shape) != 2 or shape[1] != 1:
        return labels
    labels = np.asarray(labels) if hasattr(labels, "iloc") else labels  # A table selects columns by their names.
    return labels[:, 0] if hasattr(labels, "shape") else [row[0] for row in labels]


def check_integers(values, expected, count=None, lowest=0, shape=(None, None)):
    """Returns values as an array, or raises a `ValueError` unless they are integers from `lowest`, and below `count`.

    `expected` is a sentence that says so. `shape` has `None` for each axis of any size.
    """
    try:
        values = to_array(values)
    except ValueError:  # Rows differ in length, or some values are None.
        values = np.array(values, object)
    fits = values.ndim == len(shape) and all(size in (None, own) for own, size in zip(values.shape, shape))
    if not fits or values.dtype.kind not in "iu":
        raise ValueError(f"{expected} Received: {values.dtype} of shape {values.shape}")
    expect_each((values >= lowest) & (True if count is None else values < count), expected, values)
    return values


def as_numbers(labels, expected, hint="", named=""):
    """Returns labels as an array, or raises a `ValueError` that names the first that is no number.

    `hint` is advice about rows of different lengths, and `named` about strings.
    """
    try:
        values = to_array(labels)
    except ValueError as error:
        raise ValueError(f"{expected}.{hint} Received: rows of different lengths") from error
    if values.dtype.kind in "biuf":
        return values
    for index, label in enumerate(np.asarray(labels, object).ravel()):
        if not isinstance(label, numbers.Real):
            advice = named if isinstance(label, str) else ""
            raise ValueError(f"{expected}.{advice} Received: {label!r:.100} at position {index}")
    raise ValueError(f"{expected}. Received: {values.dtype} of shape {values.shape}")
