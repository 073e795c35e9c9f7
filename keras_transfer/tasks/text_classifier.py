"""Classification of texts, or of pairs of texts, with one label or several labels for each."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers, to_array
from keras_transfer.core.expect import FLAG, FRACTION, expect, expects, integer, one_of
from keras_transfer.data import checked_names
from keras_transfer.metrics import expected_calibration_error
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.class_labels import ClassNames, MultiHot
from keras_transfer.tasks.keras_losses import trains_classes_apart
from keras_transfer.tasks.pooled_task import PooledTask, pooled_reader
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.source import check_columns
from keras_transfer.tasks.task import Signature

log = logging.getLogger("keras_transfer")
_TEMPERATURES = (0.05, 20.0)
_NO_SLOPE = 1e-12


class Calibration(NamedTuple):
    """What `TextClassifier.calibrate` found.

    Attributes:
        temperature: Float. The number by which the logits were divided.
        error_before: Float. The expected calibration error on the data before the calibration.
        error_after: Float. The expected calibration error on the data after the calibration.
    """

    temperature: float
    error_before: float
    error_after: float


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextClassifier(PooledTask):
    """A text classifier: an encoder, a pooling over the real tokens, dropout, and a dense layer of logits.

    Labels are names in `label_names`, or their positions. Names that are numbers may be passed as numbers, unless these
    could also be positions of other names. With `multi_label=True`, a text can have any number of labels, given as
    lists of names or as an array `[texts, classes]` of zeros and ones. `predict` returns logits, `predict_proba`
    returns probabilities, and `predict_labels` returns names.

    `from_pretrained` loads the head of a fine-tuned checkpoint with its label names. For any other checkpoint, or with
    `head="new"`, create a new head with `label_names`, with `labels` (a column of labels that contains the names), or
    with `num_classes`.

    `compile` also accepts the losses `"focal"` and `"label_smoothing"` by name, and the metrics `"f1"`, `"precision"`,
    `"recall"`, `"auc"` and, with one label per text, `"matthews_correlation"` and `"expected_calibration_error"`.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from texts to the encoder's inputs, or `None` for prepared ids. Defaults to `None`.
        num_classes: Integer, at least 2. Number of classes. Defaults to `None`, the number of `label_names`.
        label_names: List of strings. Class names, in the order of the logits. Defaults to `None`, for the class numbers
            as names.
        multi_label: Boolean. Whether a text may have several labels, or none. Defaults to `False`.
        thresholds: List of floats, one for each class. With `multi_label=True`, the lowest probabilities at which a
            label is predicted. `tune_thresholds` finds them. Defaults to `None`, for 0.5 for each class.
        pooling: String. `"pooled"` (the encoder's own pooled output), `"first"`, `"last"`, `"mean"`, `"max"`,
            `"weighted_mean"`, `"mean_sqrt"`, `"concat"` (last, mean and maximum, as in ULMFiT) or `"concat_first"`
            (first, mean and maximum), as in `layers.SequencePooling`. Defaults to `None`: the pooling of the encoder's
            checkpoint, otherwise `"pooled"` if the encoder has that output, otherwise `"mean"`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        hidden_activation: String or callable. Activation of an additional dense layer between the pooling and the
            dropout, as in RoBERTa heads. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer, as in ModernBERT heads. If so, neither has
            a bias. Defaults to `False`.
        hidden_dim: Integer. Width of that dense layer, 50 in ULMFiT. Defaults to `None`, the width of the pooled
            vector.
        hidden_dropout: Float between 0 and 1. Dropout rate before that dense layer, 0.4 in ULMFiT. Defaults to `0.0`.
        batch_norm: Boolean. Whether batch normalization precedes the dropout of that dense layer and of the logits, as
            in ULMFiT. Defaults to `False`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to pool a learned weighted mean of all encoder layers instead
            of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        windows: `"mean"` or `"max"`. Cuts texts that are too long into windows that overlap by a quarter
            (`text.WindowPreprocessor`) instead of truncating them, and uses the mean or the maximum of the logits of a
            text's windows, also in training. Requires a `TokenPreprocessor`. Defaults to `None`, which truncates texts.
        siamese: Boolean. How pairs of texts are encoded. If `False`, the two are packed into one sequence. If `True`,
            the encoder processes each text separately, and the head receives the features `[u, v, |u - v|, u * v]` of
            their vectors, as in InferSent. Defaults to `False`.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, num_classes]`, float32.

    Raises:
        ValueError: If `label_names` contains duplicates or does not have `num_classes` names, if `pooling` is unknown
            or not possible with the encoder, if the vocabulary or the sequence length of `preprocessor` does not match
            the encoder, if `hidden_norm=True`, `hidden_dim` or `hidden_dropout` is used without `hidden_activation`, if
            `batch_norm=True` is used with `hidden_norm=True`, if `thresholds` are not one probability for each class of
            a classifier with `multi_label=True`, or if `windows` is unknown.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(["What a film!", "What a bore."], ["good", "bad"], epochs=1)
    model.predict_labels(["A fine film."])
    ```
    """

    purpose = Purpose(
        "text-classification", "classifies texts", 'predict_labels(["A text."])', "AutoModelForSequenceClassification"
    )
    answers = ("predict_labels", "predict_proba")
    checkpoint_head = TaskHead(
        name="classifier",
        sizes=("num_classes", "label_names"),
        problem_types=("single_label_classification", "multi_label_classification"),
    )

    @expects(windows=one_of("mean", "max"), hidden_dim=integer(1), hidden_dropout=FRACTION, batch_norm=FLAG)
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        num_classes: int | None = None,
        label_names: Sequence[str] | None = None,
        multi_label: bool = False,
        thresholds: Sequence[float] | None = None,
        pooling: str | None = None,
        dropout: float = 0.1,
        hidden_activation: str | Callable[..., Any] | None = None,
        hidden_norm: bool = False,
        hidden_dim: int | None = None,
        hidden_dropout: float = 0.0,
        batch_norm: bool = False,
        scalar_mix: bool | keras.layers.Layer = False,
        windows: str | None = None,
        siamese: bool = False,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())
        label_names = _checked_classes(num_classes, label_names)
        settings["num_classes"] = len(label_names)
        settings["siamese"] = bool(siamese)
        if thresholds is not None:
            thresholds = _checked_thresholds(thresholds, len(label_names), multi_label)
        labels: Any = MultiHot(label_names, thresholds) if multi_label else ClassNames(label_names)
        super().__init__(
            encoder,
            len(label_names),
            pooled_reader(preprocessor, windows, siamese),
            labels,
            settings,
            scalar_mix=scalar_mix,
            name=name,
        )

    @property
    def thresholds(self):
        """List of floats, the lowest probability at which each class is predicted, or `None` without `multi_label`."""
        return self.labels.thresholds if self.multi_label else None

    @thresholds.setter
    def thresholds(self, thresholds):
        self.labels.thresholds = _checked_thresholds(thresholds, self.num_classes, self.multi_label)

    @property
    def tuned_thresholds(self) -> bool:
        """Boolean. Whether a threshold differs from 0.5."""
        return any(threshold != 0.5 for threshold in self.thresholds or ())

    # === Prediction ===

    @expects()
    def predict_proba(self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0) -> np.ndarray:
        """Returns the probabilities of the classes.

        Args:
            x: Data as for `dataset`, or a single text.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32, or as many as is fast.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            Float32 array `[texts, classes]`. With one label per text, each row sums to 1 (softmax). With
            `multi_label=True`, each class has an independent probability (sigmoid).

        Raises:
            ValueError: If `dataset` rejects the data, or if a probability is not a finite number.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        model.predict_proba(["A fine film."]).shape  # (1, 2)
        ```
        """
        return check_numbers(self._probabilities(self.predict(_as_list(x), batch_size=batch_size, verbose=verbose)))

    @expects()
    def predict_labels(
        self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0
    ) -> list[str] | list[list[str]]:
        """Returns the name of the most likely class of each text.

        Args:
            x: Data as for `dataset`, or a single text.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32, or as many as is fast.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            List of strings. With `multi_label=True`, a list of lists: the names of all classes whose probability
            reaches their threshold.

        Raises:
            ValueError: If `dataset` rejects the data, or if a probability is not a finite number.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        model.predict_labels(["A fine film."])  # ["good"] or ["bad"], since the model is not trained yet
        ```
        """
        return self.labels_of(self.predict_proba(x, batch_size=batch_size, verbose=verbose))

    def labels_of(self, probabilities: np.ndarray) -> list[str] | list[list[str]]:
        """Returns the label names for probabilities, as `predict_labels` does for texts.

        Args:
            probabilities: Float array `[texts, classes]`, as `predict_proba` returns it.

        Returns:
            List of strings, or with `multi_label=True` a list of lists of strings.
        """
        return self.labels.names_of(probabilities)

    def tune_thresholds(self, x: Any, y: Any) -> list[float]:
        """Sets the threshold of each class to the value with the highest F1 on validation data.

        Use data on which the model was not trained. A class without positive texts keeps its threshold.

        Args:
            x: Texts, as for `fit`.
            y: Labels, as for `fit`.

        Returns:
            List of floats, the new thresholds, which are also `model.thresholds`. Saved and exported models keep them.

        Raises:
            ValueError: If the classifier was not created with `multi_label=True`, if there are no texts, or if the
                labels are invalid.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained(
            "minilm-l6", label_names=["funny", "sad"], multi_label=True
        )
        model.tune_thresholds(["What a film!", "I cried."], [["funny", "sad"], ["sad"]])
        ```
        """
        if not self.multi_label:
            raise ValueError(
                "Only a classifier with `multi_label=True` has thresholds. Create it with that argument to predict "
                "several labels for a text. Received: multi_label=False"
            )
        labels, logits = self._labels_and_logits(x, y)
        probabilities = self._probabilities(logits)
        self.thresholds = [
            _best_threshold(labels[:, i] > 0.5, probabilities[:, i], threshold)
            for i, threshold in enumerate(self.thresholds)
        ]
        self._warn_of_other_heads()
        return self.thresholds

    def calibrate(self, x: Any, y: Any) -> Calibration:
        """Divides the logits by a temperature, so that the probabilities match the observed accuracy.

        The temperature maximizes the likelihood of the data. Use validation data, on which the model was not trained.
        The weights of the dense layer are divided by the temperature, so saved and exported models are calibrated, too.
        If the encoder has several adapters, only the head of the active ones is calibrated. The results of
        `predict_labels` do not change, because the thresholds are converted.

        Args:
            x: Texts, as for `fit`.
            y: Labels, as for `fit`.

        Returns:
            A `Calibration` with the temperature, and the expected calibration error before and after.

        Raises:
            ValueError: If there are no texts, if the labels are invalid, if a logit is not finite, or if the dense
                layer is quantized.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        found = model.calibrate(["What a film!", "What a bore.", "Great fun."], ["good", "bad", "good"])
        found.temperature, found.error_before, found.error_after
        ```

        Source: https://arxiv.org/abs/1706.04599
        """
        layer = self.get_layer("logits")
        if getattr(layer, "quantization_mode", None) or getattr(layer, "lora_enabled", False):
            raise ValueError(
                "A quantized layer, or one with Keras's own LoRA, cannot be calibrated. Calibrate the model before you "
                "quantize it. "
                f"Received: quantization_mode={layer.quantization_mode}, lora_enabled={layer.lora_enabled}"
            )
        labels, logits = self._labels_and_logits(x, y)
        temperature = 1 / _best_factor(logits.astype("float64"), labels, self.multi_label)
        rows = [self._probabilities(logits), self._probabilities(logits / temperature)]
        if self.multi_label:  # The error is computed over all classes of all texts, each a binary decision.
            labels, rows = labels.reshape(-1).round().astype(int), [part.reshape(-1) for part in rows]
        errors = [expected_calibration_error(labels, part) for part in rows]
        for weight in (layer.kernel, layer.bias):
            weight.assign(weight / temperature)
        if self.multi_label:
            if self.tuned_thresholds:
                self._warn_of_other_heads()
            self.thresholds = [_divide_logit(threshold, temperature) for threshold in self.thresholds]
        return Calibration(temperature, *errors)

    def _warn_of_other_heads(self):
        """Logs a warning if the encoder has other adapters, whose heads have the same thresholds."""
        active = "+".join(self.head_adapters.given)
        if others := [name for name in self.head_adapters.heads if name and name != active]:
            log.warning(
                "The thresholds of the model have changed for all of its adapters, although they were found with the "
                "head of %s. Set `model.thresholds` when you activate others, such as %s.",
                active or "no adapters",
                others[0],
            )

    def _labels_and_logits(self, x, y):
        """Returns labels in the form that the loss expects, and the logits of the texts, or raises a `ValueError`."""
        check_columns(x, y)
        labels = self.labels.encode(y)
        self.labels.check(labels, self.loss)
        labels = to_array(labels)
        logits = self.predict(x, verbose=0)
        rule = "There must be a label for each text, and at least one text."
        expect(len(labels) == len(logits) > 0, rule, labels=len(labels), texts=len(logits))
        [*wrong] = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if wrong:
            raise ValueError(f"Logits must be finite. Received: {logits[wrong[0]]} at position {wrong[0]}")
        if not self.multi_label:
            one_hot = labels.ndim == 2 and labels.shape[1] > 1
            labels = labels.argmax(axis=1) if one_hot else labels.reshape(-1).astype("int32")
        return labels, logits

    def _probabilities(self, logits):
        return ops.convert_to_numpy(self.labels.probabilities(logits))

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Whether `"serving_default"` accepts pairs of texts. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` (and `text_pair`) to `label_id` and `probabilities`; with
              `multi_label=True`, to `chosen`, an int32 array `[batch, classes]` of zeros and ones, and `probabilities`
            - `"embed"`: from `text` to `embedding`; not with `windows`
            - `"tokens"`: from the encoder's inputs to `logits`, unless the encoder accepts text; not with
              `siamese=True`

        Raises:
            ValueError: If the model was trained for several labels per text (`BinaryCrossentropy`) without
                `multi_label=True`, if `pairs=True` and the task has `windows`, if `pairs=False` and `siamese=True`, or
                if `pairs` does not match the texts or pairs that the task was trained on.
        """
        if not self.multi_label and trains_classes_apart(loss := self.loss):
            raise ValueError(
                "The export answers with one label for each text and the probabilities of a softmax, but the loss "
                "trains several labels per text. Create the classifier with `multi_label=True`, or use a softmax "
                f"loss. Received: loss={loss!r}"
            )
        return super().signatures(pairs)


def _checked_classes(num_classes, label_names):
    """Returns the names of the classes, given their number or their names or both."""
    label_names = None if label_names is None else checked_names(label_names)
    if num_classes is None and label_names is not None:
        num_classes = len(label_names)
    rule = "`num_classes` must be an integer of at least 2. Pass it, or the names of the classes as `label_names`."
    expect(isinstance(num_classes, (int, np.integer)) and num_classes > 1, rule, num_classes=num_classes)
    rule = f"`label_names` must have `num_classes` names, {num_classes}."
    expect(label_names is None or len(label_names) == num_classes, rule, label_names=label_names)
    return label_names or [str(number) for number in range(num_classes)]


def _checked_thresholds(thresholds, count, multi_label):
    """Returns `thresholds` as a list of floats, or raises a `ValueError`."""
    values = None
    with contextlib.suppress(TypeError, ValueError):  # One number, or no numbers.
        values = [float(threshold) for threshold in thresholds]
    rule = f"`thresholds` must be {count} probabilities, one for each class, and require `multi_label=True`."
    fits = values is not None and multi_label and len(values) == count and all(0 <= value <= 1 for value in values)
    expect(fits, rule, thresholds=thresholds, multi_label=multi_label)
    return values


def _as_list(x):
    return [x] if isinstance(x, (str, bytes)) else x


def _best_threshold(labels, probabilities, default):
    """Returns the threshold with the highest F1, halfway between two probabilities."""
    if not labels.any():
        return default
    order = np.argsort(-probabilities, kind="stable")
    found, right = probabilities[order], np.cumsum(labels[order])
    f1 = 2 * right / (np.arange(1, len(found) + 1) + right[-1])
    after = np.append(found[1:], -1.0)
    f1[found == after] = -1.0  # No threshold separates equal probabilities.
    best = f1.argmax()
    return float((found[best] + max(after[best], 0.0)) / 2)


def _divide_logit(probability, temperature):
    """Returns the probability after its logit is divided by the temperature."""
    if probability in (0.0, 1.0):
        return probability
    odds = (probability / (1 - probability)) ** (1 / temperature)
    return odds / (1 + odds)


def _best_factor(logits, labels, multi_label):
    """Returns the factor of the logits with the highest likelihood, the one root of the slope, found by bisection."""

    def slope(factor):
        scaled = factor * logits
        if multi_label:
            return ((1 / (1 + np.exp(-scaled)) - labels) * logits).mean()
        likely = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        return ((likely * logits).sum(axis=1) - logits[np.arange(len(labels)), labels]).mean()

    low, high = 1 / _TEMPERATURES[1], 1 / _TEMPERATURES[0]
    # If all labels are predicted with a margin, the slope rounds to 0 at high factors, although it is negative.
    if slope(low) > 0 or slope(high) <= _NO_SLOPE:
        log.warning(
            "No temperature from %s to %s has the highest likelihood, so the closest of these is used. "
            "Calibrate on more texts.",
            *_TEMPERATURES,
        )
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return (low * high) ** 0.5
