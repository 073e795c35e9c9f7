"""Base class of tasks with one output for each text: an encoder, a pooling over the real tokens, and a dense layer."""

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.data import part_batches
from keras_transfer.encoders import initializer_on, select_inputs
from keras_transfer.layers import Dropout, PairFeatures
from keras_transfer.tasks.heads import (
    check_linear_blocks,
    encode_mixed,
    encode_parts,
    hidden_vectors,
    merge_parts,
    pooled_vectors,
    read_by,
    text_vectors,
)
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader, TextReader, check_export, encode_texts
from keras_transfer.tasks.task import Signature, Task, texts_named
from keras_transfer.text import WindowPreprocessor

WINDOWS = ("mean", "max")


class SiameseReader(Reader):
    """Accepts pairs of texts that the encoder processes separately."""

    def batches(self, columns, y, **options):
        return part_batches(columns, y, preprocessor=self.preprocessor, **options)

    def inputs(self, x):
        return self.in_one_batch(x)


class WindowReader(TextReader):
    """Accepts texts or pairs of texts. Long texts may be cut into several windows."""

    takes_windows = True


class PooledTask(Task):
    """Base class of tasks that pool the tokens of a text into one vector, followed by a dense layer."""

    windows, siamese = None, False

    def __init__(self, encoder, units, reader, labels, settings, *, scalar_mix=False, name=None):
        activation, norm, dropout = (settings[key] for key in ("hidden_activation", "hidden_norm", "dropout"))
        batch_norm, hidden_dropout = settings.get("batch_norm", False), settings.get("hidden_dropout", 0.0)
        check_linear_blocks(
            activation, norm, settings.get("hidden_dim"), hidden_dropout, batch_norm, settings.get("windows")
        )

        # === Layers ===
        encoded, scalar_mix = encode_mixed(encoder, scalar_mix)
        dtype = encoder.dtype_policy
        initializer = initializer_on(encoder)
        head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
        logits = keras.layers.Dense(units, kernel_initializer=initializer, dtype="float32", name="logits")

        def normalized(vectors, name):  # The constants of fastai.
            if not batch_norm:
                return vectors
            return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5, dtype=dtype, name=name)(vectors)

        # === Functional model ===
        pooling, pooled = pooled_vectors(encoder, encoded, settings["pooling"])
        if settings.get("siamese"):
            pooled = PairFeatures(dtype=dtype, name="pair_features")(pooled)
        if activation is not None:
            pooled = normalized(pooled, "pooled_norm")
            if hidden_dropout:
                pooled = Dropout(hidden_dropout, dtype=dtype, name="pooled_dropout")(pooled)
        pooled = normalized(hidden_vectors(pooled, encoder, activation, norm, settings.get("hidden_dim")), "head_norm")
        pooled = self._combined(pooled, units)
        options = {"scalar_mix": scalar_mix, "settings": {**settings, "pooling": pooling}, "name": name}
        super().__init__(encoder, reader, Head(logits(head_dropout(pooled)), labels), **options)

    def _combined(self, vectors, units):
        """Returns the vectors of texts that the last layer reads. A subclass may put further layers before it."""
        return vectors

    @property
    def reads(self):
        """Tuple of strings. The encoder output that the head uses."""
        return read_by(self.pooling)

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
        outputs = super().call(inputs, training=training, mask=mask)
        if windows is None:
            return outputs
        mask = inputs["padding_mask"]
        return keras.tree.map_structure(lambda output: join_windows(output, mask, windows, self.windows), outputs)

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Whether `"serving_default"` accepts pairs of texts. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` (and `text_pair`) to the answer of the task
            - `"embed"`: from `text` to `embedding`, with the pooling (and normalization) of the encoder's checkpoint,
              or else of the task; not with `windows`
            - `"tokens"`: from the encoder's inputs to `logits`, unless the encoder accepts text; not with
              `siamese=True`

        Raises:
            ValueError: If `pairs=True` and the task has `windows`, if `pairs=False` and `siamese=True`, or if the task
                was trained on pairs and `pairs=False`, or on single texts and `pairs=True`.
        """
        rule = "`windows` cannot be used with pairs of texts. Use `pairs=False`."
        if pairs:
            expect(self.windows is None, rule, pairs=pairs)
        if self.siamese:
            expect(pairs, "A task with `siamese=True` expects pairs. Use `pairs=True`.", pairs=pairs)
        check_export(self, pairs)
        embedder, encode = self._embedder(), encode_parts if self.siamese else encode_texts

        def answer(**texts):
            return self.labels.response(self(encode(self, *texts.values()), training=False))

        def embed(text):
            return {"embedding": embedder(select_inputs(encode_texts(self, text), self.encoder.input), training=False)}

        texts = texts_named("text", "text_pair") if pairs else texts_named("text")
        answers = {"serving_default": Signature(answer, texts)}
        if self.windows is None:
            answers["embed"] = Signature(embed, texts_named("text"))
        return answers if self.siamese else {**answers, **super().signatures()}

    def _embedder(self):
        """Returns a model from the encoder's inputs to one vector for each text."""
        vectors, _, _ = text_vectors(self.encoder, default=self.pooling)
        return keras.Model(self.encoder.input, vectors)


def pooled_reader(preprocessor, windows, siamese):
    """Returns the reader of a `PooledTask` with these arguments."""
    if windows is None and isinstance(preprocessor, WindowPreprocessor):
        raise ValueError(f"A `WindowPreprocessor` requires `windows`, one of {WINDOWS}. Received: windows=None")
    if windows is None:
        return (SiameseReader if siamese else TextReader)(preprocessor)
    if siamese:
        raise ValueError(f"`windows` cannot be used with `siamese=True`. Received: windows={windows!r}")
    is_cut = isinstance(preprocessor, WindowPreprocessor)
    return WindowReader(preprocessor if is_cut else WindowPreprocessor(preprocessor))


def cut_windows(inputs, length):
    """Returns inputs `[batch, windows * length]` as `[batch * windows, length]`, and the number of windows of each row.

    Rows that are not longer than a window become one window. Others are padded to full windows.
    """
    whole = ops.shape(inputs["padding_mask"])[1]
    static = isinstance(whole, int)
    length = min(length, max(whole, 1)) if static else ops.minimum(length, ops.maximum(whole, 1))
    windows = -(-whole // length)
    windows = max(windows, 1) if static else ops.maximum(windows, 1)

    def cut(values):
        values = ops.pad(values, [[0, 0], [0, windows * length - whole]])
        return ops.reshape(values, (-1, length))

    return {name: cut(values) for name, values in inputs.items()}, windows


def join_windows(outputs, padding_mask, windows, how):
    """Returns one output for each text from the outputs [batch * windows, units] of its windows.

    `how` is `"mean"` or `"max"`, over the windows with a real token in the padding mask `[batch * windows, length]`.
    """
    outputs = ops.reshape(outputs, (-1, windows, outputs.shape[-1]))
    counts = ops.reshape(ops.max(padding_mask, axis=1) > 0, (-1, windows, 1))
    if how == "max":
        lowest = ops.cast(-3e38, outputs.dtype)
        best = ops.max(ops.where(counts, outputs, lowest), axis=1)
        return ops.where(ops.any(counts, axis=1), best, outputs[:, 0])
    counts = ops.cast(counts, outputs.dtype)
    counts = ops.where(ops.sum(counts, axis=1, keepdims=True) > 0, counts, ops.ones_like(counts))
    return ops.sum(outputs * counts, axis=1) / ops.sum(counts, axis=1)
