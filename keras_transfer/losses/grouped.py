"""The base class of losses of several vectors per row, and the similarities that they use."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import expect_each
from keras_transfer.core.saved_arguments import SavedByArguments

EPSILON = 1e-12  # The smallest length by which a vector is divided, as in torch.


class PartsLoss(SavedByArguments, keras.losses.Loss):
    """Base class of the losses of a `TextEmbedder`, which compare several vectors per row.

    A subclass implements `row_losses(labels, *vectors)`, which receives one tensor `[batch, dim]` for each text of a
    row and returns the losses `[batch]`.

    Attributes:
        min_parts: Integer. Smallest number of texts per row.
        max_parts: Integer. Largest number of texts per row, or `None` for no limit.
        takes_labels: Boolean. Whether the loss needs a number for each row.
        min_rows: Integer. Smallest batch of rows of two texts from which a model learns.
        takes_texts: Boolean. Whether `labels` may be numbers `[batch, parts]` that are the same for equal texts, for a
            loss that compares rows.
    """

    min_parts = 2
    max_parts: int | None = 2
    takes_labels = True
    takes_texts = False
    min_rows = 1

    def row_losses(self, labels: Any, *vectors: Any) -> Any:
        """Computes the loss of each row.

        Args:
            labels: Tensor `[batch]`. The labels, in one dimension.
            *vectors: Tensors `[batch, dim]`, one for each text of a row.

        Returns:
            A tensor of shape `[batch]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `row_losses`.")

    def check_labels(self, labels: np.ndarray) -> None:
        """Raises a `ValueError` if an array of labels is not valid for this loss.

        Subclasses that expect certain values override this. By default, all labels are valid.

        Args:
            labels: Array `[rows]`.
        """

    def call(self, y_true, y_pred):
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)  # Keras converts lists inside.
        shape = y_pred.shape
        if len(shape) != 3 or shape[1] < self.min_parts or shape[1] > (self.max_parts or shape[1]):
            count = self.min_parts if self.max_parts == self.min_parts else f"at least {self.min_parts}"
            raise ValueError(
                f"`{type(self).__name__}` takes rows of {count} texts. Pass a tuple of as many columns as `x`, and "
                f"train a `TextEmbedder`. Received: outputs of shape {tuple(shape)}"
            )
        if not self.takes_texts:
            y_true = ops.reshape(y_true, (-1,))
        return self.row_losses(y_true, *(y_pred[:, part] for part in range(shape[1])))


def check_between(labels, low, high, loss):
    """Raises a `ValueError` that names the first label that is not between two numbers."""
    with np.errstate(invalid="ignore"):
        are_between = (labels >= low) & (labels <= high)
    expect_each(are_between, f"Labels of `{type(loss).__name__}` must be between {low} and {high}.", labels)


def normalized(vectors):
    """Returns vectors [..., dim] scaled to length 1."""
    # A square root would have no gradient for zeros.
    return vectors * ops.rsqrt(ops.maximum(ops.sum(vectors * vectors, axis=-1, keepdims=True), EPSILON**2))


def cosines(first, second):
    """Returns the cosine of the angle between corresponding rows of two tensors `[batch, dim]`."""
    return ops.sum(normalized(first) * normalized(second), axis=-1)


def cosine_distances(first, second):
    """Returns one minus the cosine."""
    return 1 - cosines(first, second)


def euclidean_distances(first, second):
    """Returns the length of the difference of corresponding rows. As in torch, 1e-6 keeps the gradient at 0 finite."""
    return ops.sqrt(ops.sum(ops.square(first - second + 1e-6), axis=-1))
