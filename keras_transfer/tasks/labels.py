"""The labels of a task: how users write them, which loss and metrics match them, and answers in the same form."""

import numbers
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transfer.core.arrays import expect_each, to_array, whole_column
from keras_transfer.data import whole_labels
from keras_transfer.tasks.keras_losses import (
    checked_loss,
    checked_metric,
    default_metrics,
    of_used_places,
    placed,
    takes_vectors,
)


class Places:
    """Which places of integer labels `[rows, places]` are used: those whose label is not negative.

    Labels with one class for each word or token have such an object as `places`. Losses, means over batches and
    replicas, and class weights ask it.

    Example:
    ```python
    class Tags(keras_transfer.tasks.ClassNames):
        places = keras_transfer.tasks.Places()

    Tags.places.count(None, np.array([[1, 0, -1]]), None)  # 2
    ```
    """

    by_weight = False

    def loss(self, loss):
        """Returns a loss of `compile` that counts only the used places.

        Args:
            loss: Keras loss or function that accepts integer labels.

        Returns:
            Keras loss.

        Raises:
            ValueError: If the loss ignores another label than -1.
        """
        return of_used_places(loss, self.by_weight)

    def count(self, x, y, sample_weight):
        """Returns the number of used places in a batch.

        Args:
            x: Inputs of the batch.
            y: Tensor of labels `[batch, places]`.
            sample_weight: Tensor of weights, or `None`.

        Returns:
            Scalar tensor.
        """
        return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(y) >= 0, "float32"))


class WeightedPlaces(Places):
    """Which places of integer labels `[rows, places]` are used: those whose sample weight is not 0."""

    by_weight = True

    def count(self, x, y, sample_weight):
        if sample_weight is None:
            return super().count(x, y, sample_weight)
        return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(sample_weight) != 0, "float32"))


def _count_rows(x):
    return keras.ops.shape(keras.tree.flatten(x)[0])[0]


class Labels:
    """Base class of the labels of a head. It passes arrays to the loss unchanged.

    Labels turn what users pass as `y` into arrays. They also define what depends on the kind of labels: the default
    loss and metrics, what counts in their mean, `class_weight`, and the answers in users' terms. A subclass overrides
    some of the methods, often `loss`, `metrics`, `encode`, `check` and `decode`. This class has no default loss and
    checks nothing.

    Attributes:
        names: List of strings. Class names, in the order of the logits. `None` without classes.
        one_of: Boolean. Whether the outputs are logits whose softmax is the likelihood of labels.
        named_losses: Dict from additional names that `compile(loss=...)` accepts to functions that return the losses.
        named_metrics: Dict from additional names that `compile(metrics=...)` accepts to functions that return metrics.
        places: `Places`, which places of integer labels `[rows, places]` are used, or `None` if each row has a label.
        optional: Boolean. Whether raw data needs no labels, because `targets` makes them.
        made_inputs: Tuple of strings. Names of the model's inputs that `targets` makes.
        problem_type: String. Name of the problem in `config.json` of a checkpoint, or `None`.

    Example:
    ```python
    class Scores(keras_transfer.tasks.Labels):
        def loss(self):
            return keras.losses.Huber()

        def decode(self, outputs):
            return [f"{score:.1f}" for score in outputs[:, 0]]
    ```
    """

    names: Any = None
    one_of = True
    places: Places | None = None
    optional = False
    made_inputs: tuple[str, ...] = ()
    named_losses: Mapping[str, Callable] = types.MappingProxyType({})
    named_metrics: Mapping[str, Callable] = types.MappingProxyType({})
    problem_type: str | None = None

    # === Compiling ===

    def loss(self) -> Any:
        """Returns the loss that `compile(loss="auto")` uses.

        Returns:
            A Keras loss.

        Raises:
            ValueError: If the labels have no default loss.
        """
        raise ValueError("The task has no default loss. Pass `loss` to `compile`. Received: loss='auto'")

    def metrics(self) -> list[Any]:
        """Returns the metrics that `compile(metrics="auto")` uses.

        Returns:
            List of Keras metrics.
        """
        return []

    def compiled(self, loss: Any, metrics: Any, weighted_metrics: Any) -> tuple[Any, Any, Any]:
        """Returns what `compile` has received in the form that Keras expects.

        Args:
            loss: Keras loss, function or name, or `"auto"`.
            metrics: List of Keras metrics or names, `"auto"`, or `None`.
            weighted_metrics: List of Keras metrics or names, or `None`.

        Returns:
            Tuple of the loss, the metrics and the weighted metrics.

        Raises:
            ValueError: If a loss or a metric is unknown, expects probabilities, or does not match the labels.
        """
        loss = keras.tree.map_structure(lambda loss: self.checked_loss(placed(loss, "Loss", "loss")), loss)
        if self.places is not None and takes_vectors(loss):
            raise ValueError(
                "Labels are integers [batch, length], so `loss` must accept integers. Use "
                f"`SparseCategoricalCrossentropy(from_logits=True)`, or one of {['auto', *self.named_losses]}. "
                f"Received: loss={loss!r:.100}"
            )
        metrics = default_metrics(self.metrics(), loss) if isinstance(metrics, str) and metrics == "auto" else metrics
        metrics, weighted_metrics = (
            keras.tree.map_structure(
                lambda metric, name=name: self.checked_metric(placed(metric, "Metric", name), loss), given
            )
            for name, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics))
        )
        loss = loss if self.places is None else keras.tree.map_structure(self.places.loss, loss)
        return loss, metrics, weighted_metrics

    def checked_loss(self, loss: Any) -> Any:
        """Returns one loss of `compile`, made from its name if it is one of these labels.

        Args:
            loss: Keras loss, function, name or `"auto"`.

        Returns:
            Keras loss, function or name of Keras's.

        Raises:
            ValueError: If the loss is unknown, or expects probabilities.
        """
        return checked_loss(loss, {"auto": self.loss, **self.named_losses})

    def checked_metric(self, metric: Any, loss: Any) -> Any:
        """Returns one metric of `compile`, made from its name if it is one of these labels.

        Args:
            metric: Keras metric, function or name.
            loss: The losses, which the metric must match.

        Returns:
            Keras metric, function or name of Keras's.

        Raises:
            ValueError: If the metric is unknown, expects probabilities, or expects different labels from the loss.
        """
        return checked_metric(metric, loss, self.named_metrics)

    # === The user's labels ===

    def encode(self, labels: Any) -> Any:
        """Returns labels in memory in the form that the loss expects. If they need no change, they are not copied.

        Args:
            labels: Labels as the user wrote them.

        Returns:
            Array or list with an entry for each row.

        Raises:
            ValueError: If labels cannot be read, such as an unknown class name.
        """
        return whole_labels(labels, self.names)

    def check(self, labels: Any, loss: Any = None) -> None:
        """Raises a `ValueError` if encoded labels in memory cannot be labels of this task. By default, all are valid.

        Args:
            labels: Labels as `encode` returns them, or those of prepared data.
            loss: The loss of the task. Defaults to `None`, before it is compiled.

        Raises:
            ValueError: If the labels are invalid.
        """

    def check_inputs(self, inputs: dict[str, Any], labels: Any = None) -> None:
        """Raises a `ValueError` if prepared inputs that `targets` would otherwise make are invalid for this task.

        By default, all inputs are valid.

        Args:
            inputs: Dict of arrays.
            labels: The labels, or `None` without any.

        Raises:
            ValueError: If the inputs are invalid.
        """

    def class_weight(self, weights: Any, labels: Any = None) -> dict[int, float]:
        """Returns `class_weight` in the form that Keras expects.

        Args:
            weights: What the user passed as `class_weight`.
            labels: All encoded labels, if they are in memory. Defaults to `None`.

        Returns:
            Dict from the position of each class to its weight.

        Raises:
            ValueError: If the labels are not classes, or if the weights are invalid.
        """
        raise ValueError(
            "`class_weight` requires labels that are classes, one for each text or word. Use `sample_weight` to weight "
            "rows, or `loss='focal'` for rare labels of a classifier with `multi_label=True`. "
            f"Received: class_weight={weights!r:.100}"
        )

    def targets(self, data: Any, task: Any) -> Any:
        """Returns `Batches` with the targets that the task makes from raw data.

        Args:
            data: `Batches`, with the labels that the user passed or without any.
            task: `Task`.

        Returns:
            `Batches`, by default unchanged.

        Raises:
            ValueError: If the data has labels or inputs that do not belong together.
        """
        return data

    # === A batch ===

    def for_loss(self, x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Returns the labels and weights of a batch in the form in which the loss counts them.

        Args:
            x: Inputs of the batch.
            y: Labels of the batch.
            sample_weight: Weights of the batch, or `None`.

        Returns:
            Tuple of labels and weights, by default unchanged.
        """
        return y, sample_weight

    def count_of(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """Returns the number of what the loss of a batch is a mean over, by which `evaluate` weights the batch.

        Args:
            x: Inputs of the batch.
            y: Labels of the batch.
            sample_weight: Weights of the batch, or `None`.

        Returns:
            Scalar tensor: the number of rows, or of used `places`.
        """
        return _count_rows(x) if self.places is None else self.places.count(x, y, sample_weight)

    def weight_of(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """Returns by which number the loss of a replica of TensorFlow is weighted, which has some of the rows.

        Args:
            x: Inputs of the batch.
            y: Labels of the batch.
            sample_weight: Weights of the batch, or `None`.

        Returns:
            Scalar tensor: what `count_of` returns, or 1 if the loss is a sum of means over different things, which are
            weighted one by one.
        """
        return self.count_of(x, y, sample_weight)

    # === Answers ===

    def decode(self, outputs: Any) -> Any:
        """Returns what `predict` returns as answers in the form in which users write labels.

        Args:
            outputs: Array. Outputs of the head.

        Returns:
            List with an answer for each row.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `decode`. Use the method of the task that answers."
        )

    def response(self, outputs: Any) -> dict[str, Any]:
        """Returns the answer of an exported model.

        Args:
            outputs: Tensor. Outputs of the head.

        Returns:
            Dict of tensors.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `response`.")

    # === Rows and words ===

    def placeholders(self, columns: Any) -> Any:
        """Returns arbitrary valid labels for raw data that cannot be batched without labels.

        Args:
            columns: Raw data as the reader returns it.

        Returns:
            Labels, or `None` if the data needs none.
        """
        return None

    def mask(self, labels: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Returns labels of a batch without placeholders, and sample weights that are 0 where placeholders were.

        Args:
            labels: Array of labels.
            sample_weight: Array of weights, or `None`.

        Returns:
            Tuple of labels and weights.
        """
        return labels, sample_weight


class RowLabels(Labels):
    """Base class of labels with one value for each row, so that labels `[rows, 1]` mean labels `[rows]`."""

    def encode(self, labels):
        return flat_labels(labels)

    def targets(self, data, task):
        flat = flat_labels(data.labels)
        return data if flat is data.labels else data.replace(labels=flat)


class Mean(NamedTuple):
    """One of the means whose weighted sum is the loss of a batch, and the number of what it is over.

    On replicas of TensorFlow, the value is a share of the loss, as Keras's losses and `share_of_loss` return it.
    """

    value: Any
    count: Any
    weight: float = 1.0


class JointLabels(Labels):
    """Labels with losses and metrics of their own, which depend on the inputs and on all outputs of the task.

    They are the labels of the only head, and `compile` receives no losses or metrics. The task has the metrics as
    attributes.
    """

    def compiled(self, loss, metrics, weighted_metrics):
        given = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
        for argument, value in given.items():
            if value is not None and not (isinstance(value, str) and value == "auto"):
                raise ValueError(
                    "The task computes its own loss and metrics. Leave `loss`, `metrics`, `weighted_metrics` and "
                    f"`loss_weights` out. Received: {argument}={value!r}"
                )
        return None, None, None

    def means(self, x, y, y_pred, sample_weight):
        """Returns a list of the `Mean`s whose weighted sum is the loss of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `means`.")

    def update_metrics(self, x, y, y_pred, sample_weight):
        """Updates the metrics with a batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `update_metrics`.")

    def count_of(self, x, y, sample_weight):
        return _count_rows(x)

    def weight_of(self, x, y, sample_weight):
        return 1


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
