"""One or several numbers for a text, or for a pair of texts."""

import keras
import numpy as np

from keras_transfer.metrics.regression import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.tasks.heads import PooledTask
from keras_transfer.tasks.inputs import to_array


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextRegressor(PooledTask):
    """A text regressor: an encoder, a pooling over the real tokens, dropout, and a dense layer that returns numbers.

    Use it for the similarity of two sentences (STS-B), for ratings, or for several scores at once. Labels are floats
    [texts], or [texts, num_targets]. The loss is the mean squared error. `compile` also takes the metrics
    `"pearson_correlation"` and `"spearman_correlation"` by name.

    `from_pretrained` loads the head of a checkpoint that Transformers has fine-tuned for regression. For any other
    checkpoint, or with `head="new"`, a new head has `num_targets` values, one by default.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        num_targets: Integer, at least 1. Number of values to predict for each text. Defaults to `1`.
        preprocessor, pooling, dropout, name, scalar_mix, hidden_activation, hidden_norm, windows, siamese:
            See `TextClassifier`.

    Outputs:
        Float32 [batch, num_targets].

    Raises:
        ValueError: If `num_targets` is not a positive integer, or if another argument is invalid, as for
            `TextClassifier`.

    Example:
    ```python
    model = keras_transfer.tasks.TextRegressor.from_pretrained("minilm-l6")
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-4))
    model.fit((["A man eats.", "A dog barks."], ["Someone eats.", "It rains."]), [4.2, 0.4], epochs=1)
    model.predict((["A man sleeps."], ["A man is asleep."]))  # an array of shape [1, 1]
    ```

    Source: https://arxiv.org/abs/1810.04805, section 4.1 (STS-B).
    """

    head_name = "classifier"
    head_sizes = ("num_targets",)
    default_sizes = {"num_targets": 1}
    problem_types = ("regression",)
    problem_type = "regression"
    predicts_one_class = False

    def __init__(
        self,
        encoder,
        num_targets=1,
        preprocessor=None,
        pooling=None,
        dropout=0.1,
        name=None,
        scalar_mix=False,
        hidden_activation=None,
        hidden_norm=False,
        windows=None,
        siamese=False,
    ):
        if not isinstance(num_targets, (int, np.integer)) or num_targets < 1:
            raise ValueError(f"`num_targets` must be a positive integer. Received: num_targets={num_targets!r}")
        num_targets = int(num_targets)
        super().__init__(
            encoder,
            num_targets,
            preprocessor,
            pooling,
            dropout,
            name,
            scalar_mix,
            hidden_activation,
            hidden_norm,
            windows,
            siamese,
        )
        self.num_targets = num_targets

    def default_loss(self):
        return keras.losses.MeanSquaredError()

    def default_metrics(self):
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]

    def compile(self, optimizer="auto", loss="auto", metrics="auto", **kwargs):
        """Configures training as `Task.compile` does.

        Raises:
            ValueError: If a metric is an accuracy of Keras or of this library, which compares classes, or if
                `Task.compile` raises an error.
        """
        for metric in keras.tree.flatten([metrics, kwargs.get("weighted_metrics")]):
            if _is_accuracy(metric):
                raise ValueError(
                    "A regressor predicts numbers, which have no accuracy. Use `metrics='auto'` (the mean absolute "
                    "error), or the metrics of `keras_transfer.metrics` for correlations. For classes, use a "
                    f"`TextClassifier`. Received: metric={metric!r}"
                )
        super().compile(optimizer, loss=loss, metrics=metrics, **kwargs)

    def named_metrics(self):
        return {"pearson_correlation": PearsonCorrelation, "spearman_correlation": SpearmanCorrelation}

    def check_class_weight(self, class_weight):
        if class_weight is not None:
            raise ValueError(
                "`class_weight` cannot be used with a regressor. Use `sample_weight`. "
                f"Received: class_weight={class_weight!r:.100}"
            )

    def check_labels(self, labels):
        expected = "Labels must be finite numbers, one for each text"
        if self.num_targets > 1:
            expected = f"Labels must be finite numbers of shape [texts, {self.num_targets}]"
        try:
            values = to_array(labels)
        except ValueError as error:
            raise ValueError(f"{expected}. Received: rows of different lengths") from error
        if values.dtype.kind not in "biuf":
            flat = enumerate(values.ravel().tolist())
            wrong = [f"{value!r:.100} at position {i}" for i, value in flat if not isinstance(value, (int, float))]
            received = wrong[0] if wrong else f"labels of type {values.dtype}"
            raise ValueError(f"{expected}. Received: {received}")
        shapes = {(self.num_targets,), ()} if self.num_targets == 1 else {(self.num_targets,)}
        if values.ndim == 0 or values.shape[1:] not in shapes:
            raise ValueError(f"{expected}. Received: shape {values.shape}")
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            place = tuple(wrong[0].tolist())
            raise ValueError(
                f"{expected}. Received: {values[place]} at position {place[0] if len(place) == 1 else place}"
            )

    def answer(self, outputs):
        return {"values": outputs}

    def get_config(self):
        return {
            **super().get_config(),
            "num_targets": self.num_targets,
            "windows": self.windows,
            "siamese": self.siamese,
        }


def _is_accuracy(metric):
    """Returns whether a metric compares classes. A user's own one may define what is accurate for numbers."""
    if isinstance(metric, str):
        return metric == "acc" or metric.lower().endswith("accuracy")
    kind = metric if hasattr(metric, "__name__") else type(metric)
    return kind.__module__.startswith(("keras.", "keras_transfer.")) and kind.__name__.lower().endswith("accuracy")
