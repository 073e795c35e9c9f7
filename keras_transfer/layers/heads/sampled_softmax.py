"""The loss of a softmax over a large vocabulary, estimated from some of its tokens."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.layers.basic.config import ConfigOfArguments

PIECES = 4096  # Each piece of the log-uniform distribution has the same chance.


@keras.saving.register_keras_serializable(package="keras_transfer")
class SampledSoftmax(ConfigOfArguments, keras.layers.Layer):
    """An output layer whose loss compares each target with a sample of tokens in training (Jean et al. 2015).

    Tokens must be sorted by frequency, the most frequent first, because they are drawn from a log-uniform distribution,
    with replacement, once for all positions of a batch. The scores are corrected by the logarithm of the expected
    number of draws. A drawn token that is the target of a position does not count there. Otherwise, the loss is that of
    the whole vocabulary. ELMo was trained with 8,192 samples.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_sampled: Integer. Number of tokens that are drawn for a batch.
        kernel_initializer: Initializer of the vectors of the tokens. Defaults to `"glorot_uniform"`.
        seed: Integer. Seed of the draws. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`.
        - `targets`: Integer tensor of shape `[...]`, from 0 to `vocabulary_size - 1`. The loss of a token that does not
          exist is NaN. Defaults to `None`, for the logits of all tokens.
        - `sampled`: Integer tensor of shape `[num_sampled]`. Tokens to use instead of drawn ones. Defaults to `None`.
        - `training`: Boolean. Whether to compute the loss from a sample. Defaults to `False`.

    Returns:
        Float32 losses of shape `[...]`, minus the logarithm of the probability of each target, or logits
        `[..., vocabulary_size]` without targets.

    Raises:
        ValueError: If `vocabulary_size` is not a positive integer, or `num_sampled` not one of at most
            `vocabulary_size`.

    Example:
    ```python
    layer = keras_transfer.layers.SampledSoftmax(1000, num_sampled=20)
    vectors, targets = np.ones((2, 3, 16), "float32"), np.array([[5, 7, 120], [999, 0, 1]])
    loss = keras.ops.mean(layer(vectors, targets, training=True))
    layer(vectors)  # [2, 3, 1000]
    ```

    Source: https://arxiv.org/abs/1412.2007
    """

    @expects(vocabulary_size=integer(1), num_sampled=integer(1))
    def __init__(
        self,
        vocabulary_size: int,
        num_sampled: int,
        *,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        rule = f"`num_sampled` must be an integer from 1 to {vocabulary_size}, the number of tokens."
        expect(num_sampled <= vocabulary_size, rule, num_sampled=num_sampled)
        self.vocabulary_size, self.num_sampled, self.seed = vocabulary_size, num_sampled, seed
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.random = keras.random.SeedGenerator(seed)

    def build(self, inputs_shape, targets_shape=None, sampled_shape=None):
        shape = (self.vocabulary_size, inputs_shape[-1])
        # Of a kernel in another precision, only the selected rows are cast.
        self.kernel = self.add_weight(shape, self.kernel_initializer, autocast=False, name="kernel")
        self.bias = self.add_weight(shape[:1], "zeros", autocast=False, name="bias")

    def call(self, inputs, targets=None, sampled=None, training=False):
        inputs = ops.cast(inputs, self.compute_dtype)
        if targets is None:
            return self._scores(inputs)
        targets = ops.cast(targets, "int32")
        exists = ops.logical_and(targets >= 0, targets < self.vocabulary_size)
        targets = ops.clip(targets, 0, self.vocabulary_size - 1)
        if training or sampled is not None:
            sampled = self.draw() if sampled is None else ops.cast(sampled, "int32")
            losses = self._sampled_losses(inputs, targets, sampled)
        else:
            scores = self._scores(inputs)
            losses = ops.logsumexp(scores, axis=-1) - ops.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
        return ops.where(exists, losses, float("nan"))

    def _scores(self, inputs):
        kernel = ops.cast(self.kernel, self.compute_dtype)
        return ops.cast(ops.matmul(inputs, ops.transpose(kernel)), "float32") + ops.cast(self.bias, "float32")

    def _rows(self, tokens):
        return ops.cast(ops.take(self.kernel, tokens, axis=0), self.compute_dtype)

    def _sampled_losses(self, inputs, targets, sampled):
        vectors = self._rows(targets)
        right = ops.sum(ops.cast(inputs * vectors, "float32"), axis=-1)
        right = right + ops.cast(ops.take(self.bias, targets), "float32") - self._log_expected(targets)
        others = ops.matmul(inputs, ops.transpose(self._rows(sampled)))
        others = ops.cast(others, "float32") + ops.cast(ops.take(self.bias, sampled), "float32")
        others = others - self._log_expected(sampled)
        others = ops.where(targets[..., None] == sampled, -1e30, others)
        return ops.logsumexp(ops.concatenate([right[..., None], others], axis=-1), axis=-1) - right

    def draw(self) -> Any:
        """Draws tokens from the log-uniform distribution.

        Returns:
            An int32 tensor of shape `[num_sampled]`.
        """
        pieces = keras.random.randint((self.num_sampled,), 0, PIECES, seed=self.random)
        number = keras.random.uniform((self.num_sampled,), seed=self.random, dtype="float32")
        return log_uniform_tokens(self.vocabulary_size, pieces, number)

    def _log_expected(self, tokens):
        """Returns the logarithm of how often tokens are expected among those that are drawn."""
        tokens = ops.cast(tokens, "float32")
        chance = ops.log1p(1 / (tokens + 1)) / math.log(self.vocabulary_size + 1)
        return ops.log(chance * self.num_sampled)

    def compute_output_spec(self, inputs, targets=None, sampled=None, training=False):
        last = () if targets is not None else (self.vocabulary_size,)
        return keras.KerasTensor((*inputs.shape[:-1], *last), "float32")


def log_uniform_tokens(size, pieces, numbers):
    """Returns the tokens at places of the log-uniform distribution, as an int32 tensor.

    With u between 0 and 1, a token is `floor((size + 1) ** u) - 1`. A float32 has too few digits for u: from about
    620,000 tokens on, no u would lead to some of the last ones. Therefore, u is `(piece + number) / pieces`. Its power
    is computed from that at the beginning of the piece, which is known exactly.

    Args:
        pieces: Integer tensor, from 0 to `PIECES - 1`.
        numbers: Float32 tensor of the same shape, from 0 to 1.
    """
    step = math.log(size + 1) / PIECES
    begin = np.exp(step * np.arange(PIECES))
    whole = np.floor(begin)
    begin, whole, rest = (
        ops.take(ops.convert_to_tensor(values, dtype), pieces)
        for values, dtype in ((begin, "float32"), (whole, "int32"), (begin - whole, "float32"))
    )
    found = whole + ops.cast(ops.floor(rest + begin * ops.expm1(numbers * step)), "int32") - 1
    return ops.clip(found, 0, size - 1)
