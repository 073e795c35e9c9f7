"""One label for a text, or for a pair of texts."""

import keras
import numpy as np

from keras_transfer.layers import Dropout, SequencePooling
from keras_transfer.layers.pooling import POOLINGS
from keras_transfer.tasks.mixed import encode_mixed
from keras_transfer.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextClassifier(Task):
    """A classifier of texts: an encoder, a pooling over real tokens, dropout, and a dense layer of logits.

    Args:
        encoder: an encoder of ours (`hub.HubEncoder` for a TF Hub module) or a KerasHub backbone.
        num_classes: int, at least 2.
        preprocessor: callable from texts to the encoder's inputs; None for a model of prepared ids.
        pooling: `"pooled"` (the encoder's own pooled output), `"first"`, `"mean"`, `"max"`, or `"concat"` (last, mean
            and maximum, as ULMFiT); None for what the encoder's checkpoint says, else `"pooled"` where there is one,
            else `"mean"`.
        dropout: float, dropout before the dense layer.
        name: str.
        scalar_mix: True to pool a mean of all the encoder's layers, whose weights are learnt, instead of the last; or a
            `layers.ScalarMix` to set its options. It is `model.scalar_mix`.

    Outputs: logits [batch, num_classes], float32.

    Raises:
        ValueError: `pooling` is unknown or the encoder has no pooled output; the preprocessor's vocabulary or
            sequence length does not fit the encoder.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    model.compile(keras.optimizers.AdamW(1e-4))
    model.fit(["What a film!", "What a bore."], [1, 0], epochs=1)
    model.predict(["A fine film."])
    ```
    """

    def __init__(self, encoder, num_classes, preprocessor=None, pooling=None, dropout=0.1, name=None, scalar_mix=False):
        # === Layers ===
        if not isinstance(num_classes, int) or num_classes < 2:
            raise ValueError(f"`num_classes` must be an int of at least 2. Received: {num_classes!r}")
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        if pooling is None:
            pooling = getattr(encoder, "pooling", None)
            if pooling not in POOLINGS:  # none, or one that only the encoder can do, and shows
                pooling = "mean" if encoded.pooled is None else "pooled"
        if pooling != "pooled" and pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {('pooled', *POOLINGS)}. Received: {pooling!r}")
        if pooling == "pooled" and encoded.pooled is None:
            raise ValueError(f"the encoder has no pooled output: choose one of {POOLINGS}. Received: 'pooled'")
        if pooling != "pooled" and encoded.sequence is None:
            raise ValueError(f"the encoder makes one vector of a text itself: 'pooled'. Received: {pooling!r}")
        dtype = encoder.dtype_policy
        initializer = keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))
        head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
        logits = keras.layers.Dense(num_classes, kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        if pooling == "pooled":
            pooled = encoded.pooled
        else:
            pooled = SequencePooling(pooling, dtype=dtype, name="pooling")(encoded.sequence, padding_mask=encoded.mask)
        super().__init__(encoder, preprocessor, logits(head_dropout(pooled)), name, scalar_mix)

        # === Config ===
        self.num_classes = num_classes
        self.pooling = pooling
        self.dropout = dropout

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, labels):
        labels = np.asarray(labels)
        if not labels.size:
            return  # as many as there are texts, which is looked at later
        sparse = isinstance(getattr(self, "loss", None), keras.losses.SparseCategoricalCrossentropy)
        if labels.ndim == 2 and labels.shape[1] == self.num_classes and not sparse:
            return  # one-hot, for a loss that takes it
        if labels.ndim != 1 or labels.dtype.kind not in "iub":
            raise ValueError(
                f"labels are whole numbers from 0 to {self.num_classes - 1}, one for each text. "
                f"Received: {labels.dtype} of shape {labels.shape}"
            )
        bad = np.flatnonzero((labels < 0) | (labels >= self.num_classes))
        if len(bad):
            raise ValueError(
                f"labels are whole numbers from 0 to {self.num_classes - 1}. "
                f"Received: {sorted(set(labels[bad].tolist()))[:5]}, first at position {bad[0]}"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "pooling": self.pooling,
            "dropout": self.dropout,
        }
