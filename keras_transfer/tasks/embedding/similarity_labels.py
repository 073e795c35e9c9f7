"""Labels of rows of several texts, which some losses of a `TextEmbedder` require and others do not accept."""

import keras

from keras_transfer.arrays import to_array
from keras_transfer.batches import are_parts, with_placeholders
from keras_transfer.distribute import replicas_of
from keras_transfer.losses import MultipleNegativesRankingLoss
from keras_transfer.tasks.labels import Labels


class SimilarityLabels(Labels):
    """Numbers, one for each row, if the loss requires labels. The loss compares the vectors of a row."""

    one_of = False
    compares_rows = True
    optional = True  # Some losses use no labels.

    def loss(self):
        return MultipleNegativesRankingLoss()

    def compiled(self, loss, metrics, weighted_metrics):
        found = None if loss is None or (isinstance(loss, str) and loss == "auto") else keras.losses.get(loss)
        if (getattr(found, "__module__", None) or "").startswith("keras."):
            raise ValueError(
                "`loss` must compare the vectors of a row, such as "
                "`keras_transfer.losses.MultipleNegativesRankingLoss()`. "
                f"Received: loss={loss!r}"
            )
        return super().compiled(loss, metrics, weighted_metrics)

    def check(self, labels, loss=None, inputs=None):
        if loss is not None and not getattr(loss, "takes_labels", True):
            raise ValueError(f"`{type(loss).__name__}` uses no labels. Leave out `y`. Received: labels")
        values = to_array(labels)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.ndim != 1 or values.dtype.kind not in "biuf":
            raise ValueError(
                f"Labels must be numbers, one for each row. Received: {values.dtype} of shape {values.shape}"
            )
        if hasattr(loss, "check_labels"):
            loss.check_labels(values)

    def targets(self, data, task):
        if not are_parts(data):
            return data
        loss = task.loss
        data = data.replace(min_rows=_min_rows(task, data[0][0]))
        if data.has_labels or getattr(loss, "takes_labels", True):
            return data
        return with_placeholders(data, texts=getattr(loss, "takes_texts", False))

    def check_batch(self, inputs, count, task):
        needed = _min_rows(task, inputs)
        if count < needed:
            raise ValueError(
                f"`{type(task.loss).__name__}` compares the texts of a row with those of the other rows of the batch, "
                f"so that a batch needs at least {needed} rows. Use a larger `batch_size` and more rows, or pass a "
                f"third column of texts that do not belong to the first. Received: a batch of {count} "
                f"row{'s' if count > 1 else ''}"
            )


def _min_rows(task, inputs):
    """Returns the minimum number of rows of a batch, given the inputs of one batch, whose rows have several texts."""
    shape = next(iter(inputs.values())).shape
    if len(shape) == len(task.inputs[0].shape) or shape[1] != 2:  # Each row has one text or hard negatives.
        return 1
    replicas, whole = replicas_of(task)  # On JAX, the loss sees the rows of all devices.
    return getattr(task.loss, "min_rows", 1) * (1 if whole else replicas)
