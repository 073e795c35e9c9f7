"""Output layers for large vocabularies: frequent tokens in full width, and fewer dimensions for rare ones."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, integer, list_of, number
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.embeddings.adaptive_embedding import Clusters


@keras.saving.register_keras_serializable(package="keras_transfer")
class AdaptiveSoftmax(ConfigOfArguments, keras.layers.Layer):
    """Predicts tokens in two steps: a frequent token or a cluster, then a token of the cluster (Grave et al. 2017).

    Tokens must be sorted by frequency, the most frequent first. The head scores those before the first cutoff and one
    entry for each cluster of the others. The vectors of cluster i, from 1, have `dim / div_value ** i` dimensions.

    Args:
        vocabulary_size: Integer. Number of tokens.
        cutoffs: List of increasing integers between 0 and `vocabulary_size`. The first token of each cluster.
        div_value: Float, at least 1. Factor by which each cluster is narrower than the one before. Defaults to `4.0`.
        use_bias: Boolean. Whether the head has biases. Defaults to `False`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`.
        - `targets`: Integer tensor of shape `[...]`, from 0 to `vocabulary_size - 1`. Defaults to `None`.

    Returns:
        Float32 log-probabilities: of all tokens `[..., vocabulary_size]`, which cross-entropies also accept as
        logits, or of the targets `[...]`, which need less memory. They are NaN for a target that does not exist.

    Example:
    ```python
    layer = keras_transfer.layers.AdaptiveSoftmax(1000, cutoffs=[100, 400])
    vectors = np.ones((2, 3, 16), "float32")
    layer(vectors)  # [2, 3, 1000]
    -keras.ops.mean(layer(vectors, np.array([[5, 7, 120], [999, 0, 1]])))  # a loss
    ```

    Source: https://arxiv.org/abs/1609.04309
    """

    @expects(vocabulary_size=integer(1), cutoffs=list_of(integer(1), 1), div_value=number(1))
    def __init__(
        self,
        vocabulary_size: int,
        cutoffs: Sequence[int],
        *,
        div_value: float = 4.0,
        use_bias: bool = False,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.clusters = Clusters(cutoffs, self.vocabulary_size, div_value)
        self.cutoffs, self.div_value, self.use_bias = self.clusters.cutoffs, div_value, use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape, targets_shape=None):
        dim, first = inputs_shape[-1], self.cutoffs[0]
        size = first + len(self.cutoffs)
        self.head = self._kernel((dim, size), "head")
        if self.use_bias:
            self.bias = self.add_weight((size,), "zeros", name="bias")
        widths = [self.clusters.width(dim, i) for i in range(1, len(self.clusters.bounds))]
        self.projections = [self._kernel((dim, width), f"projection_{i}") for i, width in enumerate(widths)]
        self.tails = [
            self._kernel((width, end - begin), f"tail_{i}")
            for i, (width, (begin, end)) in enumerate(zip(widths, self.clusters.bounds[1:]))
        ]

    def call(self, inputs, targets=None):
        inputs = ops.cast(inputs, self.compute_dtype)
        scores = ops.matmul(inputs, self.head)
        scores = ops.cast(scores + self.bias if self.use_bias else scores, "float32")
        head, first = ops.log_softmax(scores), self.cutoffs[0]
        if targets is None:
            tails = [
                head[..., first + i, None] + ops.log_softmax(self._tail(inputs, i)) for i in range(len(self.tails))
            ]
            return ops.concatenate([head[..., :first], *tails], axis=-1)
        targets = ops.cast(targets, "int32")
        places, inside = self.clusters.places(targets, 0)
        found = ops.where(inside, _taken(head, places), float("nan"))
        for i in range(len(self.tails)):
            places, inside = self.clusters.places(targets, i + 1)
            scores = self._tail(inputs, i)
            within = _taken(scores, places) - ops.logsumexp(scores, axis=-1)
            found = ops.where(inside, head[..., first + i] + within, found)
        return found

    def compute_output_spec(self, inputs, targets=None):
        last = () if targets is not None else (self.vocabulary_size,)
        return keras.KerasTensor((*inputs.shape[:-1], *last), "float32")

    def _kernel(self, shape, name):
        return self.add_weight(shape, self.kernel_initializer, name=name)

    def _tail(self, inputs, index):
        """Returns the scores of the tokens of a cluster."""
        return ops.cast(ops.matmul(ops.matmul(inputs, self.projections[index]), self.tails[index]), "float32")


def _taken(scores, places):
    """Returns the entry at one place of each row."""
    return ops.take_along_axis(scores, places[..., None], axis=-1)[..., 0]
