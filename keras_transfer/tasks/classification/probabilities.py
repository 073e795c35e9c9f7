"""A classifier's predictions as probabilities and names, and how validation data adjusts them after training."""

import logging
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transfer.arrays import check_numbers, to_array
from keras_transfer.metrics.classification import expected_calibration_error
from keras_transfer.tasks.inputs import check_columns

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


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class Probabilities(_Task):
    """A mixin for classifiers, with one label or several labels for each text."""

    thresholds: Any

    def predict_proba(self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0) -> np.ndarray:
        """Returns the probabilities of the classes.

        Args:
            x: Data as for `dataset`, or a single text.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.
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

    def predict_labels(
        self, x: Any, *, batch_size: int | None = None, verbose: str | int = 0
    ) -> list[str] | list[list[str]]:
        """Returns the name of the most likely class of each text.

        Args:
            x: Data as for `dataset`, or a single text.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.
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
        if len(labels) != len(logits) or not len(labels):
            raise ValueError(
                "There must be a label for each text, and at least one text. "
                f"Received: {len(labels)} labels, {len(logits)} texts"
            )
        [*wrong] = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if wrong:
            raise ValueError(f"Logits must be finite. Received: {logits[wrong[0]]} at position {wrong[0]}")
        if not self.multi_label:
            one_hot = labels.ndim == 2 and labels.shape[1] > 1
            labels = labels.argmax(axis=1) if one_hot else labels.reshape(-1).astype("int32")
        return labels, logits

    def _probabilities(self, logits):
        return ops.convert_to_numpy(self.labels.probabilities(logits))


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
    """Returns the factor of the logits with the highest likelihood. The slope of the loss has one root, found by
    bisection.
    """

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
