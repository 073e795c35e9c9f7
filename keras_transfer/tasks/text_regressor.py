"""Regression for texts, or for pairs of texts, with one number or several numbers for each."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import expect_each
from keras_transfer.core.expect import expects, integer, one_of
from keras_transfer.metrics import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.keras_losses import is_accuracy
from keras_transfer.tasks.labels import RowLabels, as_numbers
from keras_transfer.tasks.pooled_task import PooledTask, pooled_reader
from keras_transfer.tasks.saved import settings_in


class Numbers(RowLabels):
    """One or several numbers for each text.

    With `compile(loss=...)`, they may also be the outputs of another model, such as the logits of a teacher.

    Args:
        count: Integer. Number of numbers for each text. Defaults to `1`.

    Example:
    ```python
    labels = keras_transfer.tasks.Numbers(2)
    labels.decode(np.array([[0.5, 2.0]]))  # [[0.5, 2.0]]
    ```
    """

    one_of = False
    problem_type = "regression"
    named_metrics = {"pearson_correlation": PearsonCorrelation, "spearman_correlation": SpearmanCorrelation}

    def __init__(self, count=1):
        self.count = count

    def loss(self):
        return keras.losses.MeanSquaredError()

    def metrics(self):
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]

    def checked_metric(self, metric, loss):
        if is_accuracy(metric):
            raise ValueError(
                "A regressor predicts numbers, which have no accuracy. Use `metrics='auto'` (the mean absolute "
                "error), or the metrics of `keras_transfer.metrics` for correlations. For classes, use a "
                f"`TextClassifier`. Received: metric={metric!r}"
            )
        return super().checked_metric(metric, loss)

    def check(self, labels, loss=None):
        dtype = keras.config.floatx()
        expected = f"Labels must be finite numbers (in {dtype}), one for each text"
        if self.count > 1:
            expected = f"Labels must be finite numbers (in {dtype}) of shape [texts, {self.count}]"
        values = as_numbers(labels, expected)
        shapes = {(self.count,), ()} if self.count == 1 else {(self.count,)}
        if values.ndim == 0 or values.shape[1:] not in shapes:
            raise ValueError(f"{expected}. Received: shape {values.shape}")
        with np.errstate(over="ignore"):
            expect_each(np.isfinite(values.astype(dtype)), f"{expected}.", values)

    def response(self, outputs):
        return {"values": outputs}

    def decode(self, outputs):
        """Returns the numbers of each row.

        Args:
            outputs: Array `[rows, count]`.

        Returns:
            List of floats, or a list of lists if there are several numbers.
        """
        return (outputs[:, 0] if self.count == 1 else outputs).tolist()


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextRegressor(PooledTask):
    """A text regressor: an encoder, a pooling over the real tokens, dropout, and a dense layer that returns numbers.

    Use it for the similarity of two sentences (STS-B), for ratings, or for several scores at once. Labels are floats
    `[texts]` or `[texts, num_targets]`. The loss is the mean squared error. `compile` also accepts the metrics
    `"pearson_correlation"` and `"spearman_correlation"` by name.

    `from_pretrained` loads the head of a checkpoint that Transformers has fine-tuned for regression. For any other
    checkpoint, or with `head="new"`, a new head has `num_targets` values, one by default.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from texts to the encoder's inputs, or `None` for prepared ids. Defaults to `None`.
        num_targets: Integer, at least 1. Number of values to predict for each text. Defaults to `1`.
        pooling: String. `"pooled"` (the encoder's own pooled output) or a pooling of `layers.SequencePooling`, such as
            `"first"`, `"mean"` or `"max"`. Defaults to `None`: the pooling of the encoder's checkpoint, otherwise
            `"pooled"` if the encoder has that output, otherwise `"mean"`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        hidden_activation: String or callable. Activation of an additional dense layer between the pooling and the
            dropout, as in RoBERTa heads. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer, as in ModernBERT heads. If so, neither has
            a bias. Defaults to `False`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to pool a learned weighted mean of all encoder layers instead
            of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        windows: `"mean"` or `"max"`. Cuts texts that are too long into overlapping windows instead of truncating them,
            and returns the mean or the maximum of the outputs of a text's windows, also in training. Requires a
            `TokenPreprocessor`. Defaults to `None`, which truncates texts.
        siamese: Boolean. How pairs of texts are encoded. If `False`, the two are packed into one sequence. If `True`,
            the encoder processes each text separately, and the head receives the features `[u, v, |u - v|, u * v]` of
            their vectors. Defaults to `False`.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Float32 `[batch, num_targets]`.

    Raises:
        ValueError: If `num_targets` is not a positive integer, if `pooling` is unknown or not possible with the
            encoder, if `preprocessor` does not match the encoder, if `hidden_norm=True` is used without
            `hidden_activation`, or if `windows` is unknown.

    Example:
    ```python
    model = keras_transfer.tasks.TextRegressor.from_pretrained("minilm-l6")
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit((["A man eats.", "A dog barks."], ["Someone eats.", "It rains."]), [4.2, 0.4], epochs=1)
    model.predict((["A man sleeps."], ["A man is asleep."]))  # an array of shape [1, 1]
    ```

    Source: https://arxiv.org/abs/1810.04805, section 4.1 (STS-B).
    """

    purpose = Purpose(
        "text-classification",
        "predicts numbers from texts",
        'predict(["A text."])',
        "AutoModelForSequenceClassification",
    )
    checkpoint_head = TaskHead(
        name="classifier", sizes=("num_targets",), default_sizes={"num_targets": 1}, problem_types=("regression",)
    )

    @expects(num_targets=integer(1), windows=one_of("mean", "max"))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        num_targets: int = 1,
        pooling: str | None = None,
        dropout: float = 0.1,
        hidden_activation: str | Callable[..., Any] | None = None,
        hidden_norm: bool = False,
        scalar_mix: bool | keras.layers.Layer = False,
        windows: str | None = None,
        siamese: bool = False,
        name: str | None = None,
    ) -> None:
        settings = {**settings_in(locals()), "siamese": bool(siamese)}
        reader, labels = pooled_reader(preprocessor, windows, siamese), Numbers(int(num_targets))
        super().__init__(encoder, labels.count, reader, labels, settings, scalar_mix=scalar_mix, name=name)
