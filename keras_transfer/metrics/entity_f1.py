"""F1 of entities as a Keras metric, computed in the graph without a loop over words."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.core.names import listed
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.metrics.spans import OUTSIDE, parted, read_labels
from keras_transfer.metrics.word_accuracy import words


@keras.saving.register_keras_serializable(package="keras_transfer")
class EntityF1(SavedByArguments, keras.metrics.Metric):
    """Micro F1 of the entities in all batches, with the rules of `entities`.

    A predicted entity is correct if its type, first word and last word are correct. Words do not have to be adjacent:
    positions without a label are removed from the labels and from the predictions. `precision` and `recall` are
    properties.

    Args:
        label_names: List of strings. The classes in order, as in `entities`.
        name: String. Name of the metric. Defaults to `"entity_f1"`.
        dtype: Dtype of the result. Counts are float32 and exact up to 16 million. Defaults to `None`.

    Call arguments:
        - `y_true`: Integers `[batch, length]`. The label of each word, negative if the position has none.
        - `y_pred`: Logits or probabilities `[batch, length, classes]`.
        - `sample_weight`: Weights `[batch]` or `[batch, length]`. A position with weight 0 counts as a position without
          a word. An entity has the weight of its first word.

    Raises:
        ValueError: If a label has an invalid form or is duplicated, if all labels are `O`, or if the shapes do not
            match.

    Example:
    ```python
    metric = keras_transfer.metrics.EntityF1(["O", "B-PER", "I-PER"])
    metric.update_state([[1, -1, 2, 0, 1]], keras.ops.one_hot([[1, 0, 2, 1, 0]], 3))
    float(metric.result()), metric.precision, metric.recall  # (0.5, 0.5, 0.5)
    ```

    Source: See `entities`.
    """

    def __init__(self, label_names: Sequence[str], *, name: str = "entity_f1", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        labels = read_labels(label_names)
        self.label_names = [str(label) for label in label_names]
        expect(
            len(set(self.label_names)) == len(self.label_names) and set(labels) - {OUTSIDE},
            "`label_names` must be unique and contain at least one entity label, such as 'B-PER'.",
            label_names=self.label_names,
        )
        # An additional last class stands before and after the words, and for positions without a word.
        labels.append(OUTSIDE)
        kinds = sorted({kind for _, kind in labels})
        self._kinds = np.array([kinds.index(kind) for _, kind in labels], "int32")
        self._inside = np.array([label != OUTSIDE for label in labels])
        self._parted = np.array([parted(before, after) for before in labels for after in labels])
        self.right, self.true, self.predicted = (
            self.add_variable((), "zeros", dtype="float32", name=name) for name in ("right", "true", "predicted")
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.convert_to_tensor(y_pred)
        true, predicted, weights = words(y_true, y_pred, sample_weight)
        nothing = len(self.label_names)
        rule = f"`y_pred` must have {nothing} classes, {listed(self.label_names)}."
        expect(y_pred.shape[-1] == nothing, rule, y_pred=y_pred.shape)
        # Move the words to the front of their row, in order, so that they are adjacent.
        real = weights > 0
        places = ops.arange(ops.shape(true)[1], dtype="int32")[None]
        order = ops.argsort(ops.where(real, places, places + ops.shape(true)[1]), axis=1)
        labels = ops.where(real, ops.stack([true, predicted]), nothing)
        labels = ops.take_along_axis(labels, order[None], axis=2)
        weights = ops.take_along_axis(weights, order, axis=1)
        starts, kinds, ends = self._spans(labels, places)
        right = starts[0] & starts[1] & (kinds[0] == kinds[1]) & (ends[0] == ends[1])
        for count, found in ((self.right, right), (self.true, starts[0]), (self.predicted, starts[1])):
            count.assign_add(ops.sum(ops.where(found, weights, 0.0)))

    def _spans(self, labels, places):
        """Returns whether an entity starts at a place, its type and its last place, each [2, batch, length]."""
        around = ops.pad(labels, [[0, 0], [0, 0], [1, 1]], constant_values=len(self.label_names))
        gaps = ops.take(self._parted, around[..., :-1] * len(self._kinds) + around[..., 1:])
        inside = ops.take(self._inside, labels)
        starts, ends = gaps[..., :-1] & inside, gaps[..., 1:] & inside
        # Entities do not overlap, so the k-th one that starts in a row is the k-th one that ends.
        ends = ops.sort(ops.where(ends, places, ops.shape(labels)[2]), axis=2)
        rank = ops.maximum(ops.cumsum(ops.cast(starts, "int32"), axis=2) - 1, 0)
        return starts, ops.take(self._kinds, labels), ops.take_along_axis(ends, rank, axis=2)

    def result(self):
        return ops.cast(ops.divide_no_nan(2 * self.right, self.true + self.predicted), self.dtype)

    @property
    def precision(self) -> float:
        """Float. The fraction of predicted entities that are correct, or 0 if there are none."""
        return _fraction(self.right, self.predicted)

    @property
    def recall(self) -> float:
        """Float. The fraction of true entities that are found, or 0 if there are none."""
        return _fraction(self.right, self.true)


def _fraction(part, whole):
    return float(ops.convert_to_numpy(ops.divide_no_nan(part, whole)))
