"""Embeddings of a large vocabulary, with fewer dimensions for rare tokens."""

import itertools

import keras
from keras import ops

from keras_transfer.layers.basic import check_cutoffs


@keras.saving.register_keras_serializable(package="keras_transfer")
class AdaptiveEmbedding(keras.layers.Layer):
    """Embeds frequent tokens in full width and rare ones in fewer dimensions (Baevski and Auli 2019).

    Tokens must be sorted by frequency, the most frequent first. It is the input side of `AdaptiveSoftmax`.

    Args:
        input_dim: Integer. Number of tokens.
        output_dim: Integer. Width of the vectors.
        cutoffs: List of increasing integers between 0 and `input_dim`. The first token of each further cluster.
        div_value: Float, at least 1. The vectors of cluster i, from 0, have `output_dim / div_value ** i` dimensions
            before their projection. Defaults to `4.0`.
        embeddings_initializer: Initializer of the tables. Defaults to `"uniform"`.

    Call arguments:
        inputs: Integer tensor of shape `[...]`, from 0 to `input_dim - 1`.

    Returns:
        A tensor of shape `[..., output_dim]`.

    Raises:
        ValueError: If `cutoffs` or `div_value` are out of range.

    Example:
    ```python
    layer = keras_transfer.layers.AdaptiveEmbedding(1000, 16, cutoffs=[100, 400])
    layer(np.array([[5, 120, 999]]))  # [1, 3, 16]
    ```

    Source: https://arxiv.org/abs/1809.10853
    """

    def __init__(self, input_dim, output_dim, cutoffs, *, div_value=4.0, embeddings_initializer="uniform", **kwargs):
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.cutoffs = check_cutoffs(cutoffs, input_dim)
        if not div_value >= 1:
            raise ValueError(f"`div_value` must be at least 1. Received: div_value={div_value!r}")
        self.div_value = div_value
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, inputs_shape=None):
        bounds = [0, *self.cutoffs, self.input_dim]
        self.tables, self.projections = [], []
        for i, (begin, end) in enumerate(itertools.pairwise(bounds)):
            width = max(1, int(self.output_dim // self.div_value**i))
            self.tables.append(
                self.add_weight((end - begin, width), self.embeddings_initializer, name=f"embeddings_{i}")
            )
            self.projections.append(self.add_weight((width, self.output_dim), "glorot_uniform", name=f"projection_{i}"))

    def call(self, inputs):
        inputs = ops.cast(inputs, "int32")
        bounds, found = [0, *self.cutoffs, self.input_dim], 0
        for table, projection, begin, end in zip(self.tables, self.projections, bounds, bounds[1:]):
            vectors = ops.take(table, ops.clip(inputs - begin, 0, end - begin - 1), axis=0)
            vectors = ops.matmul(ops.cast(vectors, self.compute_dtype), projection)
            inside = ops.logical_and(inputs >= begin, inputs < end)
            found = found + ops.where(inside[..., None], vectors, 0)
        return found

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((*inputs.shape, self.output_dim), self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "cutoffs": self.cutoffs,
            "div_value": self.div_value,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
