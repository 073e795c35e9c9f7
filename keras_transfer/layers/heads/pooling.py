"""Pooling of a sequence of vectors into one, over real tokens only, and the features of a pair of vectors."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, one_of
from keras_transfer.layers.basic.config import ConfigOfArguments

POOLINGS = ("first", "last", "mean", "max", "weighted_mean", "mean_sqrt", "concat", "concat_first")
_CONCATENATED = {"concat": ("last", "mean", "max"), "concat_first": ("first", "mean", "max")}


@keras.saving.register_keras_serializable(package="keras_transfer")
class SequencePooling(ConfigOfArguments, keras.layers.Layer):
    """Pools the vectors of a sequence's real tokens into one vector.

    - `"first"`: the vector of the first real token (BERT's [CLS])
    - `"last"`: the vector of the last real token (XLNet's <cls>)
    - `"mean"`, `"max"`: the mean or the maximum over the real tokens
    - `"weighted_mean"`: a mean in which the first real token has the weight 1, the second one 2, and so on (SGPT,
      Muennighoff 2022)
    - `"mean_sqrt"`: the sum over the real tokens, divided by the square root of their number
    - `"concat"`: the last real token's vector, the mean and the maximum, concatenated (Howard & Ruder 2018, section
      3.3)
    - `"concat_first"`: the same with the first real token's vector, for an encoder that reads texts from their ends

    Args:
        pooling: String, one of the names above. Defaults to `"mean"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real token, 0 for padding. Defaults to `None`, all
          real.

    Returns:
        A tensor of shape `[batch, dim]`, or `[batch, 3 * dim]` for `"concat"` and `"concat_first"`. Zeros for a
        sequence without real tokens.

    Example:
    ```python
    pool = keras_transfer.layers.SequencePooling("mean")
    pool(keras.ops.ones((1, 3, 4)), padding_mask=[[1, 1, 0]])
    ```
    """

    @expects(pooling=one_of(*POOLINGS))
    def __init__(self, pooling: str = "mean", **kwargs: Any):
        super().__init__(**kwargs)
        self.pooling = pooling

    def call(self, inputs, padding_mask=None):
        if padding_mask is None:
            padding_mask = ops.ones(ops.shape(inputs)[:2], dtype="int32")
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        found = [getattr(self, f"_{name}")(inputs, mask) for name in self._parts]
        return found[0] if len(found) == 1 else ops.concatenate(found, -1)

    @property
    def _parts(self):
        """Tuple of the names of the poolings whose vectors are concatenated."""
        return _CONCATENATED.get(self.pooling, (self.pooling,))

    def _first(self, inputs, mask):
        count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        return ops.sum(ops.where(ops.logical_and(mask, count == 1), inputs, 0), axis=1)

    def _last(self, inputs, mask):
        return self._first(ops.flip(inputs, 1), ops.flip(mask, 1))

    def _mean(self, inputs, mask):
        return self._ratio(inputs, inputs, mask, ops.cast(mask, "float32"))

    def _weighted_mean(self, inputs, mask):
        weights = ops.cast(mask, "float32")
        weights *= ops.cumsum(weights, axis=1)
        return self._ratio(inputs, ops.cast(inputs, "float32") * weights, mask, weights)

    def _mean_sqrt(self, inputs, mask):
        return self._ratio(inputs, inputs, mask, ops.cast(mask, "float32"), ops.sqrt)

    def _ratio(self, inputs, weighted, mask, weights, scale=None):
        """Returns the sum of `weighted` over real tokens, divided by the sum of the weights or a function of it."""
        # The sum is in float32 because sums of 512 half-precision numbers lose digits.
        total = ops.sum(ops.where(mask, ops.cast(weighted, "float32"), 0), axis=1)
        count = ops.maximum(ops.sum(weights, axis=1), 1.0)
        return ops.cast(total / (count if scale is None else scale(count)), inputs.dtype)

    def _max(self, inputs, mask):
        highest = ops.max(ops.where(mask, inputs, float("-inf")), axis=1)
        return ops.where(ops.any(mask, axis=1), highest, 0)

    def compute_output_shape(self, inputs_shape, padding_mask_shape=None):
        return (inputs_shape[0], len(self._parts) * inputs_shape[-1])


@keras.saving.register_keras_serializable(package="keras_transfer")
class PairFeatures(keras.layers.Layer):
    """Joins the vectors `u` and `v` of two texts into `[u, v, |u - v|, u * v]`.

    Call arguments:
        - `inputs`: Tensor of shape `[2 * pairs, dim]`, the vectors of a pair one after the other.

    Returns:
        A tensor of shape `[pairs, 4 * dim]`.

    Example:
    ```python
    keras_transfer.layers.PairFeatures()(np.array([[1.0], [3.0]]))  # [[1, 3, 2, 3]]
    ```

    Source: Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations" (InferSent), section 3.
    """

    def call(self, inputs):
        dim = inputs.shape[-1]
        pairs = ops.reshape(inputs, (-1, 2 * dim))
        u, v = pairs[:, :dim], pairs[:, dim:]
        return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, 4 * inputs.shape[-1]), self.compute_dtype)
