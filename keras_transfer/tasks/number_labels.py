"""Labels that are numbers, such as ratings."""

import keras
import numpy as np

from keras_transfer.core.arrays import to_array
from keras_transfer.metrics import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.tasks.keras_losses import is_accuracy
from keras_transfer.tasks.labels import Labels, flat_labels, with_flat_labels


class Numbers(Labels):
    """One or several numbers for each text."""

    one_of = False
    problem_type = "regression"

    def __init__(self, count=1):
        self.count = count

    def loss(self):
        return keras.losses.MeanSquaredError()

    def metrics(self):
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]

    def named_metrics(self):
        return {"pearson_correlation": PearsonCorrelation, "spearman_correlation": SpearmanCorrelation}

    def compiled(self, loss, metrics, weighted_metrics):
        for metric in keras.tree.flatten([metrics, weighted_metrics]):
            if is_accuracy(metric):
                raise ValueError(
                    "A regressor predicts numbers, which have no accuracy. Use `metrics='auto'` (the mean absolute "
                    "error), or the metrics of `keras_transfer.metrics` for correlations. For classes, use a "
                    f"`TextClassifier`. Received: metric={metric!r}"
                )
        return super().compiled(loss, metrics, weighted_metrics)

    def encode(self, labels):
        return flat_labels(labels)

    def check(self, labels, loss=None, inputs=None):
        dtype = keras.config.floatx()
        expected = f"Labels must be finite numbers (in {dtype}), one for each text"
        if self.count > 1:
            expected = f"Labels must be finite numbers (in {dtype}) of shape [texts, {self.count}]"
        try:
            values = to_array(labels)
        except ValueError as error:
            raise ValueError(f"{expected}. Received: rows of different lengths") from error
        if values.dtype.kind not in "biuf":
            flat = enumerate(values.ravel().tolist())
            wrong = [f"{value!r:.100} at position {i}" for i, value in flat if not isinstance(value, (int, float))]
            received = wrong[0] if wrong else f"labels of type {values.dtype}"
            raise ValueError(f"{expected}. Received: {received}")
        shapes = {(self.count,), ()} if self.count == 1 else {(self.count,)}
        if values.ndim == 0 or values.shape[1:] not in shapes:
            raise ValueError(f"{expected}. Received: shape {values.shape}")
        with np.errstate(over="ignore"):
            wrong = np.argwhere(~np.isfinite(values.astype(dtype)))
        if len(wrong):
            place = tuple(wrong[0].tolist())
            raise ValueError(
                f"{expected}. Received: {values[place]} at position {place[0] if len(place) == 1 else place}"
            )

    def class_weight(self, weights, labels=None):
        raise ValueError(
            "`class_weight` cannot be used with a regressor. Use `sample_weight`. "
            f"Received: class_weight={weights!r:.100}"
        )

    def response(self, outputs):
        return {"values": outputs}

    def decode(self, outputs):
        """Returns the numbers of each row as a list, or as a list of lists if there are several."""
        return (outputs[:, 0] if self.count == 1 else outputs).tolist()

    def targets(self, data, task):
        return with_flat_labels(data)
