"""An encoder from word vectors, which do not depend on the context."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import POSITIVE, expect, expects, integer, list_of
from keras_transfer.encoders.encoder import Encoder, constructor_settings
from keras_transfer.layers import ConfigOfArguments, Dropout, SequencePooling

_FIRST_WORD = 2  # The row of the first word, after padding and the unknown word.


@keras.saving.register_keras_serializable(package="keras_transfer")
class SmoothInverseFrequency(ConfigOfArguments, keras.layers.Layer):
    """Averages a text's word vectors with the weights a / (a + p(word)), so that frequent words count less (SIF).

    Until `set_counts` is called, the probability p of a word is Zipf's estimate from its rank,
    1 / (rank * (1 + 1/2 + ... + 1/words)), for a vocabulary sorted by frequency. The weights do not train.

    The paper then removes the common component of a set of texts. This layer does not, because the component belongs to
    the set, and a head can learn to ignore it.

    Args:
        vocabulary_size: Integer. Number of ids: padding, the unknown word (with the weight 1), then the words.
        smoothing: Float. The a in the weights.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `token_ids, padding_mask`: Tensors of shape `[batch, length]`.

    Source: Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings", algorithm 1.
    """

    @expects(smoothing=POSITIVE)
    def __init__(self, vocabulary_size, smoothing=1e-3, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.smoothing = smoothing

    def build(self, inputs_shape, token_ids_shape=None, padding_mask_shape=None):
        by_rank = 1 / np.arange(1, self.vocabulary_size - _FIRST_WORD + 1)
        self.word_weights = self.add_weight(
            name="word_weights",
            shape=(self.vocabulary_size,),
            initializer=lambda shape, dtype: ops.convert_to_tensor(self._weights(by_rank), dtype),
            trainable=False,
            dtype="float32",
            autocast=False,
        )

    def set_counts(self, counts, total=None):
        """Sets the weights from counts [words] in the vocabulary's order. A word with a count of 0 has the weight 1."""
        self.word_weights.assign(self._weights(counts, total))

    def _weights(self, counts, total=None):
        counts = np.asarray(counts, "float64")
        words = self.vocabulary_size - _FIRST_WORD
        total = counts.sum() if total is None else total
        rule = f"`counts` must be finite, non-negative numbers for {words} words, with a positive total."
        fits = counts.shape == (words,) and np.isfinite(counts).all() and (counts >= 0).all() and total > 0
        expect(fits, rule, counts=counts.shape, total=float(total))
        weights = self.smoothing / (self.smoothing + counts / total)
        return np.concatenate([[0.0, 1.0], weights]).astype("float32")

    def call(self, inputs, token_ids, padding_mask):
        mask = ops.cast(padding_mask, "float32")
        weights = ops.take(self.word_weights, token_ids, axis=0) * mask
        total = ops.sum(ops.cast(inputs, "float32") * weights[:, :, None], axis=1)
        count = ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
        return ops.cast(total / count, inputs.dtype)

    def compute_output_shape(self, inputs_shape, token_ids_shape=None, padding_mask_shape=None):
        return (inputs_shape[0], inputs_shape[-1])


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordVectorEncoder(Encoder):
    """Encodes each word as its vector, without context, and optionally pools the vectors of a text.

    With `kernel_sizes`, convolutions then read the vectors of neighboring words, so that the order of words counts.
    With `pooling="max"`, this is the network of Kim (2014).

    Args:
        vocabulary_size: Integer. Number of ids: 0 is padding, 1 the unknown word, then the words.
        hidden_dim: Integer. Width of the vectors.
        pooling: String, one of `"mean"`, `"max"` and `"sif"` (a mean that gives rare words more weight:
            `SmoothInverseFrequency`). How `pooled_output` is computed. Defaults to `None`, no `pooled_output`.
        trainable_embeddings: Boolean. Whether the vectors train. `False` freezes them, as `freeze` does. Defaults to
            `True`.
        kernel_sizes: List of different integers. For each, a convolution with ReLU over so many words is added, and
            their outputs are concatenated. Defaults to `()`, no convolutions.
        filters: Integer. Width of the output of each convolution. Defaults to `100`.
        dropout: Float between 0 and 1. Dropout rate of the vectors. Defaults to `0.0`.
        smoothing: Float. The a of `"sif"`. Defaults to `1e-3`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `normalize`, `name` and `trainable` of `Encoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`, from `text.WordPreprocessor`.

    Outputs: Dict of `sequence_output` `[batch, length, dim]` and, with `pooling`, `pooled_output` `[batch, dim]`, in
        which `dim` is `hidden_dim`, or `len(kernel_sizes) * filters`.

    Example:
    ```python
    vectors = keras_transfer.checkpoints.WordVectors(["good", "bad", "film"], np.eye(3))
    encoder = keras_transfer.encoders.WordVectorEncoder.from_vectors(vectors)
    preprocessor = keras_transfer.text.WordPreprocessor(vectors.words, sequence_length=16)
    model = keras_transfer.tasks.TextClassifier(encoder, preprocessor, num_classes=2)
    model.predict(["Good film!"], verbose=0)
    ```

    Source: Kim 2014, "Convolutional Neural Networks for Sentence Classification", https://arxiv.org/abs/1408.5882.
    """

    LEARNING_RATES = {math.inf: 1e-3}
    POOLINGS = ("mean", "max", "sif")

    @expects(
        vocabulary_size=integer(_FIRST_WORD + 1),
        kernel_sizes=list_of(integer(1)),
        filters=integer(1),
        smoothing=POSITIVE,
    )
    def __init__(
        self,
        vocabulary_size: int,
        *,
        hidden_dim: int,
        pooling: str | None = None,
        trainable_embeddings: bool = True,
        kernel_sizes: Sequence[int] = (),
        filters: int = 100,
        dropout: float = 0.0,
        smoothing: float = 1e-3,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        kernel_sizes = list(kernel_sizes)
        settings = constructor_settings(locals())

        # === Layers ===
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
        token_embedding = keras.layers.Embedding(
            vocabulary_size, hidden_dim, initializer, dtype=dtype, name="token_embedding"
        )
        embeddings_dropout = Dropout(dropout, dtype=dtype, name="embeddings_dropout")
        convolutions = [
            keras.layers.Conv1D(
                filters, size, padding="same", activation="relu", dtype=dtype, name=f"convolution_{size}"
            )
            for size in kernel_sizes
        ]
        bag = None
        if pooling == "sif":
            bag = SmoothInverseFrequency(vocabulary_size, smoothing, dtype=dtype, name="bag")
        elif pooling in self.POOLINGS:
            bag = SequencePooling(pooling, dtype=dtype, name="bag")

        # === Functional model ===
        inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in ("token_ids", "padding_mask")}
        x = embeddings_dropout(token_embedding(inputs["token_ids"]))
        if convolutions:
            x = x * ops.expand_dims(ops.cast(inputs["padding_mask"], x.dtype), -1)
            x = ops.concatenate([convolution(x) for convolution in convolutions], axis=-1)
        outputs = {"sequence_output": x}
        if bag is not None:
            ids = {"token_ids": inputs["token_ids"]} if pooling == "sif" else {}
            outputs["pooled_output"] = bag(x, padding_mask=inputs["padding_mask"], **ids)
        super().__init__(inputs, outputs, [x], pooling, dtype=dtype, settings=settings, **kwargs)
        if not trainable_embeddings:
            token_embedding.trainable = False
        self.token_embedding = token_embedding
        self.convolutions = convolutions
        self.bag = bag

    @classmethod
    def from_config(cls, config):
        if "dim" in config:  # The name in files of version 0.1.
            config = {"hidden_dim" if name == "dim" else name: value for name, value in config.items()}
        return super().from_config(config)

    @classmethod
    def from_vectors(cls, vectors: Any, *, counts: Mapping | None = None, **kwargs: Any) -> Self:
        """Returns an encoder with the given vectors and the ids of `text.WordPreprocessor(vectors.words)`.

        Args:
            vectors: A `checkpoints.WordVectors`.
            counts: Dict from words, with or without a vector, to their counts, for `pooling="sif"`. Defaults to
                `None`, Zipf's estimate from the order of `vectors.words`.
            **kwargs: Arguments of the class (`pooling`, `trainable_embeddings`, ...).

        Returns:
            A `WordVectorEncoder`.

        Raises:
            ValueError: If `vectors` is not a `WordVectors`, if `counts` is given without `pooling="sif"`, or if it
                contains no word with a vector.

        Example:
        ```python
        vectors = keras_transfer.checkpoints.WordVectors(["the", "film"], [[0.1, 0.2], [0.3, 0.4]])
        keras_transfer.encoders.WordVectorEncoder.from_vectors(vectors, counts={"the": 90, "film": 10}, pooling="sif")
        ```
        """
        rule = "`vectors` must be a `checkpoints.WordVectors`, such as `WordVectors.load(path)`."
        expect(hasattr(vectors, "table"), rule, vectors=vectors)
        table = vectors.table()
        encoder = cls(table.shape[0], hidden_dim=table.shape[1], **kwargs)
        encoder.token_embedding.set_weights([table])
        if counts is not None:
            expect(encoder.pooling == "sif", "`counts` requires pooling='sif'.", pooling=encoder.pooling)
            known = [counts.get(word, 0) for word in vectors.words]
            expect(any(known), "`counts` must contain at least one word of `vectors`.", counts=list(counts)[:5])
            encoder.bag.set_counts(known, sum(counts.values()))
        return encoder

    def layer_groups(self) -> list:
        # The weights of SIF never train, so they do not form a separate group.
        embeddings = [self.token_embedding, *([self.bag] if self.bag is not None else [])]
        convolutions = [("convolutions", "block", self.convolutions, False)] if self.convolutions else []
        return [("embeddings", "embeddings", embeddings), *convolutions]
