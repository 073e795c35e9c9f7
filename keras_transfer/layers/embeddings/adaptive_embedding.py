"""Embeddings of a large vocabulary, with fewer dimensions for rare tokens."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect, expects, integer, list_of, number
from keras_transfer.layers.basic.config import ConfigOfArguments


class Clusters:
    """The tokens of each cluster, the most frequent ones first, and the width of their vectors.

    Args:
        cutoffs: List of integers. The first token of each cluster but the first.
        div_value: Float, at least 1. Factor by which each cluster is narrower than the one before.

    Attributes:
        bounds: List of tuples of integers, the first token of each cluster and the one after its last.
    """

    def __init__(self, cutoffs, size, div_value):
        edges = [0, *cutoffs, size]
        rule = f"`cutoffs` must be increasing integers between 0 and {size}, the number of tokens."
        expect(sorted(set(edges)) == edges, rule, cutoffs=cutoffs)
        self.cutoffs, self.bounds = list(cutoffs), list(itertools.pairwise(edges))
        self._div_value = div_value

    def width(self, dim, number):
        """Returns the vectors' width in a cluster, given the width in the first cluster."""
        return max(1, int(dim // self._div_value**number))

    def places(self, tokens, number):
        """Returns the places of tokens in this cluster, any place for others, and whether each is in it."""
        begin, end = self.bounds[number]
        inside = ops.logical_and(tokens >= begin, tokens < end)
        return ops.clip(tokens - begin, 0, end - begin - 1), inside


@keras.saving.register_keras_serializable(package="keras_transfer")
class AdaptiveEmbedding(ConfigOfArguments, keras.layers.Layer):
    """Embeds frequent tokens in full width and rare ones in fewer dimensions (Baevski and Auli 2019).

    Tokens must be sorted by frequency, the most frequent first. It is the input side of `AdaptiveSoftmax`.

    Args:
        input_dim: Integer. Number of tokens.
        output_dim: Integer. Width of the vectors.
        cutoffs: List of increasing integers between 0 and `input_dim`. The first token of each further cluster.
        div_value: Float, at least 1. The vectors of cluster i, from 0, have `output_dim / div_value ** i` dimensions
            before their projection. Defaults to `4.0`.
        embeddings_initializer: Initializer of the tables. Defaults to `"uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Integer tensor of shape `[...]`, from 0 to `input_dim - 1`.

    Returns:
        A tensor of shape `[..., output_dim]`. It is NaN for a token that does not exist.

    Example:
    ```python
    layer = keras_transfer.layers.AdaptiveEmbedding(1000, 16, cutoffs=[100, 400])
    layer(np.array([[5, 120, 999]]))  # [1, 3, 16]
    ```

    Source: https://arxiv.org/abs/1809.10853
    """

    @expects(input_dim=integer(1), output_dim=integer(1), cutoffs=list_of(integer(1), 1), div_value=number(1))
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        cutoffs: Sequence[int],
        *,
        div_value: float = 4.0,
        embeddings_initializer: keras.initializers.Initializer | str = "uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.clusters = Clusters(cutoffs, self.input_dim, div_value)
        self.cutoffs, self.div_value = self.clusters.cutoffs, div_value
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, inputs_shape=None):
        self.tables, self.projections = [], []
        for i, (begin, end) in enumerate(self.clusters.bounds):
            shape = (end - begin, self.clusters.width(self.output_dim, i))
            self.tables.append(
                self.add_weight(shape, self.embeddings_initializer, autocast=False, name=f"embeddings_{i}")
            )
            self.projections.append(
                self.add_weight((shape[1], self.output_dim), "glorot_uniform", name=f"projection_{i}")
            )

    def call(self, inputs):
        inputs, found = ops.cast(inputs, "int32"), float("nan")
        for i, (table, projection) in enumerate(zip(self.tables, self.projections)):
            places, inside = self.clusters.places(inputs, i)
            vectors = ops.matmul(ops.cast(ops.take(table, places, axis=0), self.compute_dtype), projection)
            found = ops.where(inside[..., None], vectors, found)
        return found

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((*inputs.shape, self.output_dim), self.compute_dtype)
