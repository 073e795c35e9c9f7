"""Classification of texts, or of pairs of texts, with one label or several labels for each."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.checkpoints.base import TaskHead
from keras_transfer.label_names import checked_names
from keras_transfer.names import listed
from keras_transfer.tasks.base import Signature
from keras_transfer.tasks.classification.probabilities import Probabilities
from keras_transfer.tasks.heads import PooledTask, pooled_reader
from keras_transfer.tasks.labels import ClassNames, MultiHot, trains_classes_apart


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextClassifier(Probabilities, PooledTask):
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
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-4))
    model.fit(["What a film!", "What a bore."], ["good", "bad"], epochs=1)
    model.predict_labels(["A fine film."])
    ```
    """

    checkpoint_head = TaskHead(
        name="classifier",
        sizes=("num_classes", "label_names"),
        problem_types=("single_label_classification", "multi_label_classification"),
    )

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
        label_names = _checked_classes(num_classes, label_names)
        if thresholds is not None:
            thresholds = _checked_thresholds(thresholds, len(label_names), multi_label)
        labels: Any = MultiHot(label_names, thresholds) if multi_label else ClassNames(label_names)
        super().__init__(
            encoder,
            len(label_names),
            pooled_reader(preprocessor, windows, siamese),
            labels,
            pooling=pooling,
            dropout=dropout,
            name=name,
            scalar_mix=scalar_mix,
            hidden_activation=hidden_activation,
            hidden_norm=hidden_norm,
            windows=windows,
            siamese=siamese,
            hidden_dim=hidden_dim,
            hidden_dropout=hidden_dropout,
            batch_norm=batch_norm,
            settings={
                "num_classes": len(label_names),
                "label_names": label_names,
                "multi_label": bool(multi_label),
                **({"thresholds": labels.thresholds} if multi_label else {}),
                "windows": windows,
                "siamese": bool(siamese),
                "hidden_dim": hidden_dim,
                "hidden_dropout": hidden_dropout,
                "batch_norm": bool(batch_norm),
            },
        )

    @property
    def thresholds(self):
        """List of floats. With `multi_label=True`, the lowest probability at which each class is predicted."""
        return self.labels.thresholds if self.multi_label else [0.5] * self.num_classes

    @thresholds.setter
    def thresholds(self, thresholds):
        self.labels.thresholds = _checked_thresholds(thresholds, self.num_classes, self.multi_label)

    @property
    def tuned_thresholds(self) -> bool:
        """Boolean. Whether a threshold differs from 0.5."""
        return any(threshold != 0.5 for threshold in self.thresholds)

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
    if not isinstance(num_classes, (int, np.integer)) or num_classes < 2:
        raise ValueError(
            "`num_classes` must be an integer of at least 2. Pass it, or the names of the classes as `label_names`. "
            f"Received: num_classes={num_classes!r}"
        )
    if label_names is not None and len(label_names) != num_classes:
        raise ValueError(
            f"`label_names` must have `num_classes` names, {num_classes}. Received: label_names={listed(label_names)}"
        )
    return label_names or [str(number) for number in range(num_classes)]


def _checked_thresholds(thresholds, count, multi_label):
    """Returns `thresholds` as a list of floats, or raises a `ValueError`."""
    values = None
    with contextlib.suppress(TypeError, ValueError):  # One number, or no numbers.
        values = [float(threshold) for threshold in thresholds]
    if values is None or not multi_label or len(values) != count or not all(0 <= value <= 1 for value in values):
        raise ValueError(
            f"`thresholds` must be {count} probabilities, one for each class, and require `multi_label=True`. "
            f"Received: thresholds={thresholds}, multi_label={multi_label}"
        )
    return values
