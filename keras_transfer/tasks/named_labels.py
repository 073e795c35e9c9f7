"""Labels of several heads, as a dict with the labels of each head."""

import keras
import numpy as np

from keras_transfer.core.names import did_you_mean
from keras_transfer.distribute import factors_of_means
from keras_transfer.tasks.labels import Labels


class NamedLabels(Labels):
    """Several labels for each row, one for each head of a task, as a dict with the names of the heads.

    The outputs of the task are a dict with the same names. Losses and metrics in `compile` are dicts, too. A head that
    is missing in a dict of losses has its default loss; `None` turns its training off.
    """

    one_of = False

    def __init__(self, **labels):
        self.labels = labels

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

    def of_any_rows(self, labels):
        return self._each(labels, lambda each, values: each.of_any_rows(values))

    def check(self, labels, loss=None, inputs=None):
        losses = loss if isinstance(loss, dict) else {}
        for name, values in self._checked(labels).items():
            self._of(name, lambda each, values, name=name: each.check(values, losses.get(name), inputs), values)

    def weight_of(self, x, y, sample_weight):
        return 1  # `weights_on_replicas` weights the loss of each head separately.

    def weights_on_replicas(self, x, y, sample_weight):
        """Returns the sample weights of each head, scaled so that its loss is a mean over all replicas."""
        names = [name for name in self.labels if name in y]
        weights = sample_weight if isinstance(sample_weight, dict) else dict.fromkeys(names, sample_weight)
        factors = factors_of_means(*(self.labels[name].weight_of(x, y[name], weights.get(name)) for name in names))
        found = {}
        for name, factor in zip(names, factors):
            of_head = weights.get(name)
            if of_head is None:
                of_head = keras.ops.ones(keras.ops.shape(y[name])[: 2 if self.labels[name].of_places else 1])
            found[name] = factor * keras.ops.cast(of_head, "float32")
        return found

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
        if not isinstance(labels, dict) or labels.keys() != self.labels.keys():
            received = f"the keys {list(labels)}" if isinstance(labels, dict) else type(labels).__name__
            raise ValueError(f"Labels must be a dict with the keys {list(self.labels)}. Received: {received}")
        return labels
