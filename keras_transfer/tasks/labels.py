"""The labels of a task: how users write them, which loss and metrics match them, and answers in the same form."""

import keras
import numpy as np

from keras_transfer.core.arrays import whole_column
from keras_transfer.data import whole_labels
from keras_transfer.tasks.keras_losses import check_loss, check_metrics, default_metrics, from_name, takes_vectors
from keras_transfer.tasks.used_places import of_used_places


class Labels:
    """Base class of the labels of a task. It passes arrays to the loss unchanged.

    Labels are the component of a `Task` that turns what users pass as `y` into arrays. They also define what depends on
    the kind of labels: the default loss and metrics, `class_weight`, and the answers in users' terms. This class has no
    default loss and checks nothing.

    Attributes:
        names: List of strings. Class names, in the order of the logits. `None` without classes.
        one_of: Boolean. Whether the outputs are logits whose softmax is the likelihood of labels.
        compares_rows: Boolean. Whether the loss compares the rows of a batch, so that `check_batch` needs one.
        are_ids: Boolean. Whether labels are token ids, which `targets` makes for data without labels. The loss must
            then accept integers.
        of_places: Boolean. Whether labels are integers at places, where negative ones are unused.
        per_row: Boolean. Whether each row has one label, so that labels `[rows, 1]` mean labels `[rows]`.
        optional: Boolean. Whether raw data needs no labels, because `targets` makes them.
        made_inputs: Tuple of strings. Names of the model's inputs that `targets` makes.
        problem_type: String. Name of the problem in `config.json` of a checkpoint, or `None`.
    """

    names = None
    one_of = True
    are_ids = of_places = False
    per_row = optional = False
    made_inputs: tuple[str, ...] = ()
    compares_rows = False
    problem_type: str | None = None

    # === Compiling ===

    def loss(self):
        """Returns the loss that `compile(loss="auto")` uses."""
        raise ValueError("The task has no default loss. Pass `loss` to `compile`. Received: loss='auto'")

    def metrics(self):
        """Returns the metrics that `compile(metrics="auto")` uses."""
        return []

    def named_losses(self):
        """Returns a dict from additional names that `compile(loss=...)` accepts to functions that return the losses."""
        return {}

    def named_metrics(self):
        """Returns a dict from additional names that `compile(metrics=...)` accepts to functions that return metrics."""
        return {}

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns the loss, the metrics and the weighted metrics of `compile` in the form that Keras expects."""
        named = {"auto": self.loss, **self.named_losses()}
        loss = keras.tree.map_structure(
            lambda each: from_name(each, named, keras.losses.get, "loss") if isinstance(each, str) else each, loss
        )
        metrics = default_metrics(self.metrics(), loss) if isinstance(metrics, str) and metrics == "auto" else metrics
        metrics, weighted_metrics = (self._with_names(given) for given in (metrics, weighted_metrics))
        check_loss(loss)
        if (self.of_places or self.are_ids) and takes_vectors(loss):
            raise ValueError(
                "Labels are integers [batch, length], so `loss` must accept integers. Use "
                f"`SparseCategoricalCrossentropy(from_logits=True)`, or one of {['auto', *self.named_losses()]}. "
                f"Received: loss={loss!r:.100}"
            )
        check_metrics([metrics, weighted_metrics], loss)
        if self.of_places or self.are_ids:
            loss = keras.tree.map_structure(lambda each: of_used_places(each, by_weight=not self.of_places), loss)
        return loss, metrics, weighted_metrics

    def _with_names(self, metrics):
        """Returns metrics in the same structure, with an object for each name in `named_metrics`."""
        named = self.named_metrics()
        return keras.tree.map_structure(
            lambda metric: from_name(metric, named, keras.metrics.get, "metric") if isinstance(metric, str) else metric,
            metrics,
        )

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
            "`class_weight` requires labels that are classes. Use `sample_weight` to weight rows. "
            f"Received: class_weight={weights!r:.100}"
        )

    def draws(self, task):
        """Returns a function from the inputs of a batch and a `np.random.Generator` to new inputs and their targets.

        Subclasses whose objective draws targets override this. By default, it is `None`, since labels are given.
        """
        return None

    def targets(self, data, task):
        """Returns `Batches` with the targets that the task makes from raw data."""
        return data

    def check_batch(self, inputs, count, task):
        """Raises a `ValueError` if a batch of `count` rows, with these inputs, is too small for the loss.

        Subclasses whose loss compares rows override this. By default, a batch may have any number of rows.
        """

    def weight_of(self, x, y, sample_weight):
        """Returns the number of values in the mean that is the loss of a batch: its rows, or the places that are used.

        Replicas of TensorFlow, each of which has some of the rows, are weighted by it.
        """
        if self.of_places:
            return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(y) >= 0, "float32"))
        return keras.ops.shape(keras.tree.flatten(x)[0])[0]

    def count_of(self, x, y, sample_weight):
        """Returns the number by which `evaluate` weights the loss of a batch: what its mean is over, or its rows."""
        found = self.weight_of(x, y, sample_weight)
        is_of_several = isinstance(found, int) and found == 1  # Each of several losses is a mean over something else.
        return keras.ops.shape(keras.tree.flatten(x)[0])[0] if is_of_several else found

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


def lacks_targets(data, made=()):
    """Returns whether `Batches` have inputs without labels, and none of the inputs whose names are in `made`."""
    return not data.has_labels and not set(made) & set(data.inputs)


class OwnLoss:
    """A mixin for `Labels` of a task whose `compute_loss` does not use a loss of `compile`."""

    task_name: str | None = None

    def loss(self):
        return None

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns `None` for all three, and raises a `ValueError` if one is given."""
        given = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
        for argument, value in given.items():
            if value is not None and not (isinstance(value, str) and value == "auto"):
                raise ValueError(
                    f"A `{self.task_name}` computes its own loss and metrics. Leave `loss`, `metrics`, "
                    f"`weighted_metrics` and `loss_weights` out. Received: {argument}={value!r}"
                )
        return None, None, None
