"""The base of tasks with one output for a text: an encoder, a pooling over the real tokens, and a dense layer."""

import keras

from keras_transfer.batches import part_batches
from keras_transfer.encoders.base import TransformerStack, select_inputs
from keras_transfer.layers.basic import Dropout, serialize_activation
from keras_transfer.layers.blocks import first_token_only
from keras_transfer.layers.heads import PairFeatures
from keras_transfer.tasks.base import Signature, Task, encode_texts
from keras_transfer.tasks.heads.hidden import hidden_vectors
from keras_transfer.tasks.heads.members import encode_parts, merge_parts
from keras_transfer.tasks.heads.mixed import encode_mixed
from keras_transfer.tasks.heads.pooled import pooled_vectors, text_vectors
from keras_transfer.tasks.heads.windows import WINDOWS, cut_windows, join_windows
from keras_transfer.tasks.inputs import check_export, flat_labels, texts_of_stream, with_flat_labels
from keras_transfer.text.preprocessors import WindowPreprocessor


class PooledTask(Task):
    """Base class of tasks that pool the tokens of a text into one vector, which a dense layer reads.

    Args:
        encoder: See `TextClassifier`.
        units: Integer. Number of outputs for each text.
        preprocessor, pooling, dropout, name, scalar_mix, hidden_activation, hidden_norm, windows, siamese: See
            `TextClassifier`.

    Outputs:
        Float32 [batch, units].
    """

    takes_windows = True

    def __init__(
        self,
        encoder,
        units,
        preprocessor,
        pooling,
        dropout,
        name,
        scalar_mix,
        hidden_activation,
        hidden_norm,
        windows=None,
        siamese=False,
    ):
        # === Layers ===
        if windows is None and isinstance(preprocessor, WindowPreprocessor):
            raise ValueError(f"A `WindowPreprocessor` requires `windows`, one of {WINDOWS}. Received: windows=None")
        if windows is not None:
            if siamese:
                raise ValueError(f"`windows` cannot be used with `siamese=True`. Received: windows={windows!r}")
            preprocessor = _with_windows(preprocessor, windows)
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        dtype = encoder.dtype_policy
        initializer = keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))
        head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
        logits = keras.layers.Dense(units, kernel_initializer=initializer, dtype="float32", name="logits")

        # === Functional model ===
        pooling, pooled = pooled_vectors(encoder, encoded, pooling)
        if siamese:
            pooled = PairFeatures(dtype=dtype, name="pair_features")(pooled)
        pooled = hidden_vectors(pooled, encoder, hidden_activation, hidden_norm)
        super().__init__(encoder, preprocessor, logits(head_dropout(pooled)), name, scalar_mix)

        # === Config ===
        self.pooling = pooling
        self.dropout = dropout
        self.hidden_activation = hidden_activation
        self.hidden_norm = hidden_norm
        self.windows = windows
        self.siamese = bool(siamese)

    @property
    def takes_either(self):
        """Boolean. Whether single texts and pairs of texts are both valid, and mean something different."""
        return not self.siamese

    def call(self, inputs, training=None, mask=None):
        inputs = select_inputs(inputs, self.input)
        if self.siamese:
            inputs, parts = merge_parts(inputs, self.input)
            if not isinstance(parts, int) or parts != 2:
                known = "one sequence" if parts is None else "an unknown number of sequences"
                raise ValueError(
                    "With `siamese=True`, the inputs of a pair must be [batch, 2, length]: pass a tuple of two columns "
                    "of texts, or `text.part_batches(...)` instead of `text.batches(...)`. "
                    f"Received: {f'{parts} sequences' if isinstance(parts, int) else known} for each row"
                )
        windows = None
        if self.windows is not None:
            inputs, windows = cut_windows(inputs, self.preprocessor.window_length)
        only_pooler = self.pooling == "pooled" and isinstance(self.encoder, TransformerStack)
        block = self.encoder.block_for_first_token() if only_pooler else None
        with first_token_only(block):
            outputs = super().call(inputs, training=training, mask=mask)
        return outputs if windows is None else join_windows(outputs, inputs["padding_mask"], windows, self.windows)

    # === Pairs whose texts are encoded separately ===

    def make_batches(self, x, y, batch_size, shuffle, sample_weight):
        if not self.siamese:
            return super().make_batches(x, y, batch_size, shuffle, sample_weight)
        return part_batches(
            x, y, preprocessor=self.preprocessor, batch_size=batch_size, shuffle=shuffle, sample_weight=sample_weight
        )

    def _dataset_of(self, *args):
        return with_flat_labels(super()._dataset_of(*args))

    def _one_batch(self, *args):
        x, y, sample_weight = super()._one_batch(*args)
        return x, y if y is None else flat_labels(y), sample_weight

    def prepare_stream(self, dataset):
        if self.siamese and texts_of_stream(dataset):
            raise ValueError(
                "With `siamese=True`, pairs of texts must be in memory, as a tuple of two columns. "
                f"Received: a `tf.data.Dataset` of {dataset.element_spec}"
            )
        return super().prepare_stream(dataset)

    def encode_batch(self, texts):
        return self.encode_columns(texts) if self.siamese else super().encode_batch(texts)

    # === Export and config ===

    def answer(self, outputs):
        """Returns the response of `"serving_default"`, a dict of tensors, given the outputs of the model."""
        raise NotImplementedError(f"{type(self).__name__} must implement `answer`.")

    def signatures(self, pairs=False):
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Whether `"serving_default"` takes pairs of texts. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` (and `text_pair`) to the answer of the task
            - `"embed"`: from `text` to `embedding`, pooled (and normalized) as in the encoder's checkpoint, or else as
              in the task; not with `windows`
            - `"tokens"`: from the encoder's inputs to `logits`, unless the encoder takes text; not with `siamese=True`

        Raises:
            ValueError: If `pairs=True` and the task has `windows`, if `pairs=False` and `siamese=True`, or if the task
                was trained on pairs and `pairs=False`, or on single texts and `pairs=True`.
        """
        if pairs and self.windows is not None:
            raise ValueError("`windows` cannot be used with pairs of texts. Received: pairs=True")
        if self.siamese and not pairs:
            raise ValueError("A task with `siamese=True` takes pairs of texts. Use `pairs=True`. Received: pairs=False")
        check_export(self, pairs)
        embedder, encode = self._embedder(), encode_parts if self.siamese else encode_texts

        def answer(**texts):
            return self.answer(self(encode(self, *texts.values()), training=False))

        def embed(text):
            return {"embedding": embedder(encode_texts(self, text), training=False)}

        names = ("text", "text_pair") if pairs else ("text",)
        texts = {name: keras.KerasTensor((None,), "string", name=name) for name in names}
        answers = {"serving_default": Signature(answer, texts)}
        if self.windows is None:
            answers["embed"] = Signature(embed, {"text": texts["text"]})
        return answers if self.siamese else {**answers, **super().signatures()}

    def _embedder(self):
        """Returns a model from the encoder's inputs to one vector for each text."""
        vectors, _, _ = text_vectors(self.encoder, default=self.pooling)
        return keras.Model(self.encoder.input, vectors)

    def get_config(self):
        activation = self.hidden_activation
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "dropout": self.dropout,
            "hidden_activation": None if activation is None else serialize_activation(activation),
            "hidden_norm": self.hidden_norm,
        }


def _with_windows(preprocessor, windows):
    """Returns a preprocessor that cuts long texts into windows, or raises a `ValueError` if that is not possible."""
    if windows not in WINDOWS:
        raise ValueError(
            f"Invalid value for argument `windows`. Expected None or one of {WINDOWS}. Received: windows={windows!r}"
        )
    return preprocessor if isinstance(preprocessor, WindowPreprocessor) else WindowPreprocessor(preprocessor)
