"""One label for a text, or for a pair of texts."""

import keras
import numpy as np

from keras_transfer.layers import Dropout
from keras_transfer.layers.activations import serialize_activation
from keras_transfer.tasks.compiled import takes_vectors, trains_classes_apart
from keras_transfer.tasks.data_checks import check_class_labels
from keras_transfer.tasks.hidden import hidden_vectors
from keras_transfer.tasks.mixed import encode_mixed
from keras_transfer.tasks.pooled import pooled_vectors, text_vectors
from keras_transfer.tasks.signatures import Signature, encode_texts, most_likely
from keras_transfer.tasks.task import Task
from keras_transfer.text.word_batching import checked_names


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextClassifier(Task):
    """A text classifier: an encoder, a pooling over the real tokens, dropout, and a dense layer of logits.

    `from_pretrained` loads the head of a fine-tuned checkpoint, with the names of its labels. For any other checkpoint,
    or with `head="new"`, `num_classes` or `label_names` create a new head.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        num_classes: Integer, at least 2. Number of classes. Defaults to `None`, that of `label_names`.
        preprocessor: Callable from texts to the encoder's inputs, or None for prepared ids. Defaults to `None`.
        pooling: String. `"pooled"` (the encoder's own pooled output), `"first"`, `"last"`, `"mean"`, `"max"`, or
            `"concat"` (last, mean and maximum, as in ULMFiT). Defaults to the pooling of the encoder's checkpoint,
            otherwise to `"pooled"` if the encoder has that output, otherwise to `"mean"`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        name: String. Name of the model. Defaults to `None`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to pool a learned weighted mean of all layers of the encoder
            instead of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        label_names: List of strings. Names of the classes, in the order of the logits. Defaults to `None`, their
            numbers.
        hidden_activation: String or callable. Activation of a dense layer between the pooling and the dropout, as
            heads of RoBERTa have it. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer, as in heads of ModernBERT. If so, neither
            has a bias. Defaults to `False`.

    Outputs:
        Logits [batch, num_classes], float32.

    Raises:
        ValueError: If `label_names` contains duplicates or does not have `num_classes` names, if `pooling` is unknown
            or not possible with the encoder, or if the vocabulary or the sequence length of `preprocessor` does not
            match the encoder, or if `hidden_norm=True` without `hidden_activation`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    model.compile(keras.optimizers.AdamW(1e-4))
    model.fit(["What a film!", "What a bore."], [1, 0], epochs=1)
    model.predict(["A fine film."])
    ```
    """

    head_name = "classifier"
    head_sizes = ("num_classes", "label_names")

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
    ):
        # === Layers ===
        label_names = None if label_names is None else checked_names(label_names)
        if num_classes is None and label_names is not None:
            num_classes = len(label_names)
        if not isinstance(num_classes, (int, np.integer)) or num_classes < 2:
            raise ValueError(f"`num_classes` must be an integer of at least 2. Received: num_classes={num_classes!r}")
        num_classes = int(num_classes)
        if label_names is not None and len(label_names) != num_classes:
            raise ValueError(
                f"`label_names` must have `num_classes` names, {num_classes}. Received: label_names={label_names}"
            )
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        dtype = encoder.dtype_policy
        initializer = keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))
        head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
        logits = keras.layers.Dense(num_classes, kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        pooling, pooled = pooled_vectors(encoder, encoded, pooling)
        pooled = hidden_vectors(pooled, encoder, hidden_activation, hidden_norm)
        super().__init__(encoder, preprocessor, logits(head_dropout(pooled)), name, scalar_mix)

        # === Config ===
        self.num_classes = num_classes
        self.pooling = pooling
        self.dropout = dropout
        self.label_names = label_names or [str(number) for number in range(num_classes)]
        self.hidden_activation = hidden_activation
        self.hidden_norm = hidden_norm

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, labels):
        check_class_labels(labels, self.num_classes, takes_vectors(getattr(self, "loss", None)))

    def signatures(self, pairs=False):
        """Returns what an exported model answers.

        Args:
            pairs: Boolean. Whether `"serving_default"` takes pairs of texts. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` (and `text_pair`) to `label_id` and `probabilities`
            - `"embed"`: from `text` to `embedding`, pooled (and normalized) as in the encoder's checkpoint, or else as
              in the classifier
            - `"tokens"`: from the encoder's inputs to `logits`, unless the encoder takes text

        Raises:
            ValueError: If the model was trained for several labels per text (`BinaryCrossentropy`), since the answer is
                one label and the probabilities of a softmax.
        """
        if trains_classes_apart(loss := getattr(self, "loss", None)):
            raise ValueError(
                "The export answers with one label for each text and the probabilities of a softmax, but the loss "
                "trains several labels per text. Use a softmax loss, or a subclass with `signatures` of its own. "
                f"Received: loss={loss!r}"
            )
        embedder = self._embedder()

        def classify(**texts):
            return most_likely(self(encode_texts(self, *texts.values()), training=False))

        def embed(text):
            return {"embedding": embedder(encode_texts(self, text), training=False)}

        names = ("text", "text_pair") if pairs else ("text",)
        texts = {name: keras.KerasTensor((None,), "string", name=name) for name in names}
        text = {"text": texts["text"]}
        return {"serving_default": Signature(classify, texts), "embed": Signature(embed, text), **super().signatures()}

    def _embedder(self):
        """Returns a model from the encoder's inputs to one vector for each text."""
        vectors, _, _ = text_vectors(self.encoder, default=self.pooling)
        return keras.Model(self.encoder.input, vectors)

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "pooling": self.pooling,
            "dropout": self.dropout,
            "label_names": list(self.label_names),
            "hidden_activation": None
            if self.hidden_activation is None
            else serialize_activation(self.hidden_activation),
            "hidden_norm": self.hidden_norm,
        }
