"""One label, or several labels, for a text or for a pair of texts."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transfer.batches import checked_names, keys_as_positions
from keras_transfer.losses import SmoothedCrossentropy, SparseCategoricalFocalCrossentropy
from keras_transfer.metrics.classification import (
    AUC,
    ExpectedCalibrationError,
    F1Score,
    MatthewsCorrelation,
    Precision,
    Recall,
)
from keras_transfer.names import listed
from keras_transfer.tasks.base import most_likely, takes_vectors, trains_classes_apart
from keras_transfer.tasks.classification.probabilities import Probabilities
from keras_transfer.tasks.heads import PooledTask
from keras_transfer.tasks.inputs import (
    are_empty,
    check_class_labels,
    check_multi_hot,
    check_not_positions,
    has_names,
    in_order_of_names,
    multi_hot,
    names_of_numbers,
    positions_of,
    positions_of_numbers,
    to_array,
)

_UNNAMED = " With `num_classes`, the names of classes are their numbers. Pass `label_names=[...]` instead."
_SEVERAL = " For several labels per text, create the classifier with `multi_label=True`."


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextClassifier(Probabilities, PooledTask):
    """A text classifier: an encoder, a pooling over the real tokens, dropout, and a dense layer of logits.

    Labels are names in `label_names`, or their positions. Names that are numbers may be passed as numbers, unless these
    could also be positions of other names. With `multi_label=True`, a text can have any number of
    labels, given as lists of names or as an array [texts, classes] of zeros and ones. `predict` returns logits,
    `predict_proba` returns probabilities, and `predict_labels` returns names.

    `from_pretrained` loads the head of a fine-tuned checkpoint, with the names of its labels. For any other checkpoint,
    or with `head="new"`, create a new head with `label_names`, with `labels` (a column of labels that contains the
    names), or with `num_classes`.

    `compile` also takes the losses `"focal"` and `"label_smoothing"` by name, and the metrics `"f1"`, `"precision"`,
    `"recall"`, `"auc"` and, with one label per text, `"matthews_correlation"` and `"expected_calibration_error"`.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        num_classes: Integer, at least 2. Number of classes. Defaults to `None`, the number of `label_names`.
        preprocessor: Callable from texts to the encoder's inputs, or None for prepared ids. Defaults to `None`.
        pooling: String. `"pooled"` (the encoder's own pooled output), `"first"`, `"last"`, `"mean"`, `"max"`,
            `"weighted_mean"`, `"mean_sqrt"`, or `"concat"` (last, mean and maximum, as in ULMFiT); see
            `layers.SequencePooling`. Defaults to the pooling of the encoder's checkpoint, otherwise to `"pooled"` if
            the encoder has that output, otherwise to `"mean"`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        name: String. Name of the model. Defaults to `None`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to pool a learned weighted mean of all layers of the encoder
            instead of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        label_names: List of strings. Names of the classes, in the order of the logits. Defaults to `None`, which uses
            their numbers.
        hidden_activation: String or callable. Activation of a dense layer between the pooling and the dropout, as in
            heads of RoBERTa. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer, as in heads of ModernBERT. If so, neither
            has a bias. Defaults to `False`.
        multi_label: Boolean. Whether a text may have several labels, or none. Defaults to `False`.
        thresholds: List of floats, one for each class. With `multi_label=True`, the lowest probabilities at which a
            label is predicted. See `tune_thresholds`. Defaults to `None`, which is 0.5 for each class.
        windows: `"mean"` or `"max"`. Cuts texts that are too long into windows that overlap by a quarter
            (`text.WindowPreprocessor`) instead of truncating them, and takes the mean or the maximum of the logits of a
            text's windows, also in training. Requires a `TokenPreprocessor`. Defaults to `None`.
        siamese: Boolean. How pairs of texts are read. If `False`, the two are packed into one sequence. If `True`, the
            encoder reads each on its own, and the head reads the features `[u, v, |u - v|, u * v]` of their vectors, as
            in InferSent. Defaults to `False`.

    Outputs:
        Logits [batch, num_classes], float32.

    Raises:
        ValueError: If `label_names` contains duplicates or does not have `num_classes` names, if `pooling` is unknown
            or not possible with the encoder, if the vocabulary or the sequence length of `preprocessor` does not match
            the encoder, if `hidden_norm=True` is used without `hidden_activation`, if `thresholds` are not one
            probability for each class of a classifier with `multi_label=True`, or if `windows` is unknown.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-4))
    model.fit(["What a film!", "What a bore."], ["good", "bad"], epochs=1)
    model.predict_labels(["A fine film."])
    ```
    """

    head_name = "classifier"
    head_sizes = ("num_classes", "label_names")
    problem_types = ("single_label_classification", "multi_label_classification")

    def __init__(
        self,
        encoder,
        num_classes=None,
        preprocessor=None,
        pooling=None,
        dropout=0.1,
        name=None,
        scalar_mix=False,
        label_names=None,
        hidden_activation=None,
        hidden_norm=False,
        multi_label=False,
        thresholds=None,
        windows=None,
        siamese=False,
    ):
        label_names = None if label_names is None else checked_names(label_names)
        if num_classes is None and label_names is not None:
            num_classes = len(label_names)
        if not isinstance(num_classes, (int, np.integer)) or num_classes < 2:
            raise ValueError(f"`num_classes` must be an integer of at least 2. Received: num_classes={num_classes!r}")
        num_classes = int(num_classes)
        if label_names is not None and len(label_names) != num_classes:
            raise ValueError(
                f"`label_names` must have `num_classes` names, {num_classes}. "
                f"Received: label_names={listed(label_names)}"
            )
        if thresholds is not None:
            thresholds = _checked_thresholds(thresholds, num_classes, multi_label)
        super().__init__(
            encoder,
            num_classes,
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

        # === Config ===
        self.num_classes = num_classes
        self.label_names = label_names or [str(number) for number in range(num_classes)]
        self.multi_label = bool(multi_label)
        self.thresholds = thresholds or [0.5] * num_classes

    def default_loss(self):
        if self.multi_label:
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def named_losses(self):
        if self.multi_label:
            return {
                "focal": lambda: keras.losses.BinaryFocalCrossentropy(from_logits=True),
                "label_smoothing": lambda: keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
            }
        return {"focal": SparseCategoricalFocalCrossentropy, "label_smoothing": SmoothedCrossentropy}

    def default_metrics(self):
        if self.multi_label:
            return [keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")]
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def named_metrics(self):
        named = {"f1": F1Score, "precision": Precision, "recall": Recall, "auc": AUC}
        if self.multi_label:
            return named
        of_one = {"matthews_correlation": MatthewsCorrelation, "expected_calibration_error": ExpectedCalibrationError}
        return {**named, **of_one}

    @property
    def predicts_one_class(self):
        """Boolean. Whether the outputs are logits whose softmax is the likelihood of labels."""
        return not self.multi_label

    @property
    def tuned_thresholds(self):
        """Boolean. Whether a threshold differs from 0.5."""
        return any(threshold != 0.5 for threshold in self.thresholds)

    @property
    def problem_type(self):
        """String. What Transformers calls the problem, or `None` if it needs no name."""
        return "multi_label_classification" if self.multi_label else None

    # === Labels ===

    def encode_labels(self, labels):
        labels, names = in_order_of_names(labels, self.label_names), self.label_names
        if self.multi_label:
            if has_names(labels) or are_empty(labels):
                return multi_hot(labels, names, _UNNAMED)
            check_not_positions(labels, names)
            return labels
        return positions_of(labels, names, _UNNAMED) if has_names(labels) else positions_of_numbers(labels, names)

    def labels_of_any_rows(self, labels):
        labels = in_order_of_names(labels, self.label_names)  # An array has no names of columns.
        if self.multi_label or has_names(labels):
            return labels
        return names_of_numbers(labels, self.label_names)  # All rows tell whether numbers are names or positions.

    def check_labels(self, labels):
        if self.multi_label:
            check_multi_hot(labels, self.num_classes)
        else:
            check_class_labels(labels, self.num_classes, takes_vectors(getattr(self, "loss", None)), _SEVERAL)

    def check_class_weight(self, class_weight):
        if class_weight is not None and self.multi_label:
            raise ValueError(
                "`class_weight` cannot be used with `multi_label=True`. Use `loss='focal'` for rare labels. "
                f"Received: class_weight={class_weight!r:.100}"
            )
        super().check_class_weight(class_weight)

    def encode_class_weight(self, class_weight, labels):
        if isinstance(class_weight, Mapping):
            return dict(zip(keys_as_positions(class_weight, self.label_names), class_weight.values()))
        if not isinstance(class_weight, str) or class_weight != "balanced":
            return class_weight
        if self.multi_label or labels is None:
            received = "multi_label=True" if self.multi_label else "a dataset"
            raise ValueError(
                f"`class_weight='balanced'` requires one label for each text, in memory. Received: {received}"
            )
        labels = positions_of(labels, self.label_names) if has_names(labels) else labels
        self.check_labels(labels)
        labels = to_array(labels)
        if labels.ndim == 2 and labels.shape[1] > 1:
            labels = labels.argmax(axis=1)
        counts = np.bincount(labels.reshape(-1).astype(int), minlength=self.num_classes)
        # A class without texts has no weight to balance.
        return {
            i: len(labels) / (self.num_classes * count) if count else 1.0 for i, count in enumerate(counts.tolist())
        }

    # === Export ===

    def signatures(self, pairs=False):
        """Returns the signatures of an exported model, as `PooledTask.signatures` does.

        `"serving_default"` returns `label_id` and `probabilities`. With `multi_label=True`, it returns `chosen`, an
        int32 array [batch, classes] of zeros and ones, and `probabilities`.

        Args:
            pairs: Boolean. Whether `"serving_default"` takes pairs of texts. Defaults to `False`.

        Raises:
            ValueError: If the model was trained for several labels per text (`BinaryCrossentropy`) without
                `multi_label=True`, or if `PooledTask.signatures` raises an error.
        """
        if not self.multi_label and trains_classes_apart(loss := getattr(self, "loss", None)):
            raise ValueError(
                "The export answers with one label for each text and the probabilities of a softmax, but the loss "
                "trains several labels per text. Create the classifier with `multi_label=True`, or use a softmax "
                f"loss. Received: loss={loss!r}"
            )
        return super().signatures(pairs)

    def answer(self, outputs):
        if not self.multi_label:
            return most_likely(outputs)
        probabilities = ops.sigmoid(outputs)
        chosen = probabilities >= ops.convert_to_tensor(self.thresholds, probabilities.dtype)
        return {"chosen": ops.cast(chosen, "int32"), "probabilities": probabilities}

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "label_names": list(self.label_names),
            "multi_label": self.multi_label,
            "thresholds": list(self.thresholds) if self.multi_label else None,
            "windows": self.windows,
            "siamese": self.siamese,
        }


def _checked_thresholds(thresholds, count, multi_label):
    """Returns `thresholds` as a list of floats, or raises a `ValueError`."""
    values = [float(threshold) for threshold in thresholds]
    if not multi_label or len(values) != count or not all(0 <= value <= 1 for value in values):
        raise ValueError(
            f"`thresholds` must be {count} probabilities, one for each class, and require `multi_label=True`. "
            f"Received: thresholds={thresholds}, multi_label={multi_label}"
        )
    return values
