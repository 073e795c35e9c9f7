"""Embeddings that are more than a table look-up."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, integer, list_of
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class PositionEmbedding(ConfigOfArguments, keras.layers.Layer):
    """Learned absolute positions: row `i` of a table for the `i`-th token (Gehring et al. 2017; BERT).

    Args:
        max_sequence_length: Integer. Number of positions, which is the length of the longest sequence.
        initializer: Initializer of the table. Defaults to `"glorot_uniform"`.
        offset: Integer. Number of unused rows before the first token's (2 in RoBERTa and BART).
            Defaults to `0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`, the token embeddings. Only its shape matters.
        - `start`: Integer, or integer tensor of shape `[]` or `[batch]`. Position of the first token when decoding with
          a cache. In a tensor of shape `[batch]` it may be negative: positions below 0 are padding on the left and use
          the first row of the table. Defaults to `0`.
        - `positions`: Integer tensor of shape `[batch, length]`. The position of each token, in place of `start`.
          Defaults to `None`.

    Returns:
        A tensor of shape `[1 or batch, length, dim]`, to be added to the token embeddings.

    Raises:
        ValueError: If the sequence is longer than the table.

    Example:
    ```python
    tokens = keras.random.normal((2, 5, 8))
    tokens + keras_transfer.layers.PositionEmbedding(max_sequence_length=16)(tokens)
    ```
    """

    def __init__(
        self,
        max_sequence_length: int,
        *,
        initializer: keras.initializers.Initializer | str = "glorot_uniform",
        offset: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.offset = offset
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.offset + self.max_sequence_length, input_shape[-1]),
            initializer=self.initializer,
            autocast=False,  # Only the selected rows are cast.
        )

    def call(self, inputs, start=0, positions=None):
        if positions is not None:
            return ops.cast(ops.take(self.embeddings, positions + self.offset, axis=0), self.compute_dtype)
        if isinstance(start, int):
            self.check_length(inputs.shape[1], start)
        length, row = ops.shape(inputs)[1], start + self.offset
        if len(getattr(row, "shape", ())) == 1:
            rows = ops.clip(row[:, None] + ops.arange(length), self.offset, self.offset + self.max_sequence_length - 1)
            return ops.cast(ops.take(self.embeddings, rows, axis=0), self.compute_dtype)
        if isinstance(row, int):
            positions = self.embeddings[row : row + length]
        else:
            positions = ops.slice(ops.convert_to_tensor(self.embeddings), (row, 0), (length, inputs.shape[-1]))
        return ops.expand_dims(ops.cast(positions, self.compute_dtype), 0)

    def check_length(self, length: int, start: int = 0) -> None:
        """Raises a `ValueError` if the table has too few rows for a sequence.

        Args:
            length: Integer. Length of the sequence.
            start: Integer. Position of its first token. Defaults to `0`.
        """
        _check_length(length, start, self.max_sequence_length)

    def compute_output_spec(self, inputs, start=0, positions=None):
        if positions is None:
            self.check_length(inputs.shape[1])
        return keras.KerasTensor((1 if positions is None else inputs.shape[0], *inputs.shape[1:]), self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_transfer")
class SinusoidalPositions(ConfigOfArguments, keras.layers.Layer):
    """Fixed absolute positions: sines in the first half of a vector and cosines in the second (Vaswani et al. 2017).

    Args:
        max_sequence_length: Integer. Number of positions, which is the length of the longest sequence.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `start`: Integer. Position of the first token. Defaults to `0`.
        - `positions`: Integer tensor of shape `[batch, length]`. Position of each token, in place of `start`. Positions
          below 0 are padding. Defaults to `None`.

    Returns:
        A tensor of shape `[1 or batch, length, dim]`, to be added to the token embeddings.

    Raises:
        ValueError: If the sequence is longer than `max_sequence_length`.

    Example:
    ```python
    tokens = keras.random.normal((2, 5, 8))
    tokens + keras_transfer.layers.SinusoidalPositions(max_sequence_length=16)(tokens)
    ```

    Source: https://arxiv.org/abs/1706.03762, section 3.5
    """

    def __init__(self, max_sequence_length: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length

    def call(self, inputs, start=0, positions=None):
        dim = inputs.shape[-1]
        if positions is None:
            if isinstance(start, int):
                _check_length(inputs.shape[1], start, self.max_sequence_length)
            positions = ops.expand_dims(ops.convert_to_tensor(start), -1) + ops.arange(ops.shape(inputs)[1])
        positions = ops.reshape(ops.cast(positions, "float32"), (-1, ops.shape(inputs)[1], 1))
        frequencies = np.power(10000.0, -np.arange(0, dim, 2) / dim)
        angles = positions * ops.convert_to_tensor(frequencies, "float32")
        waves = ops.concatenate([ops.sin(angles), ops.cos(angles)[..., : dim // 2]], axis=-1)
        return ops.cast(waves, self.compute_dtype)

    def compute_output_spec(self, inputs, start=0, positions=None):
        if positions is None:
            _check_length(inputs.shape[1], 0, self.max_sequence_length)
        return keras.KerasTensor((1 if positions is None else inputs.shape[0], *inputs.shape[1:]), self.compute_dtype)


def _check_length(length, start, most):
    """Raises a `ValueError` if there is no position for sequences of `length` after `start`."""
    rule = f"Sequences must have at most {most} tokens, the size of the position table. Truncate them with "
    expect(
        length is None or start + length <= most,
        rule + "`sequence_length` of the preprocessor.",
        tokens=length and start + length,
    )


@keras.saving.register_keras_serializable(package="keras_transfer")
class SegmentEmbedding(keras.layers.Embedding):
    """An embedding table with few rows, such as BERT's segments (Devlin et al. 2019).

    On JAX, the layer multiplies one-hot vectors by the table. The gradient of a look-up adds the gradients of all
    tokens to the same one or two rows, which accelerators do one after the other.

    Args:
        input_dim: Integer. Number of segments.
        output_dim: Integer. Width of the table.
        **kwargs: Arguments of `keras.layers.Embedding`, such as `embeddings_initializer`.

    Call arguments:
        - `inputs`: Integer tensor of shape `[batch, length]`, the segment of each token.

    Returns:
        A tensor of shape `[batch, length, output_dim]`. On JAX, it is NaN for a segment that does not exist, as with
        `keras.layers.Embedding`. Other backends raise an error.

    Example:
    ```python
    keras_transfer.layers.SegmentEmbedding(2, 8)(np.array([[0, 0, 1]]))
    ```
    """

    def call(self, inputs):
        if keras.backend.backend() != "jax":
            return super().call(inputs)
        table = ops.cast(self.embeddings, self.compute_dtype)
        segments = ops.expand_dims(ops.arange(self.input_dim, dtype=inputs.dtype), 0)
        one_hot = ops.expand_dims(inputs, -1) == segments
        rows = ops.matmul(ops.cast(one_hot, self.compute_dtype), table)
        return ops.where(ops.any(one_hot, -1, keepdims=True), rows, float("nan"))


@keras.saving.register_keras_serializable(package="keras_transfer")
class SpeakerEmbedding(ConfigOfArguments, keras.layers.Embedding):
    """Adds the embedding of the speaker's delimiter to the embedding of each token (Wolf et al. 2019).

    The last delimiter at or before a token names its speaker. Both embeddings come from the same table. Tokens after
    `speakers[0]`, which begins the text, belong to `speakers[1]`. If the inputs contain no delimiter, as when a reply
    is generated token by token, the speaker is `speakers[2]`.

    Args:
        input_dim: Integer. Number of tokens.
        output_dim: Integer. Width of the embeddings.
        embeddings_initializer: Initializer of the table. Defaults to `"uniform"`.
        speakers: List of three integers: the ids of the token that begins a text, and of the delimiters of the partner
            and of the speaker who replies, as `text.dialogue_inputs` uses them.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Integer tensor of shape `[batch, length]`.

    Returns:
        A tensor of shape `[batch, length, output_dim]`.

    Raises:
        ValueError: If `speakers` are not three different ids.

    Example:
    ```python
    layer = keras_transfer.layers.SpeakerEmbedding(10, 4, speakers=[0, 1, 2])
    layer(np.array([[0, 7, 1, 8, 2, 9]]))  # rows 0, 7 and 1, 8 with that of 1 added, rows 2 and 9 with that of 2
    ```

    Source: https://arxiv.org/abs/1901.08149, section 4.
    """

    @expects(speakers=list_of(integer(0), 3))
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: keras.initializers.Initializer | str = "uniform",
        *,
        speakers: Sequence[int] | None = None,
        **kwargs: Any,
    ):
        super().__init__(input_dim, output_dim, embeddings_initializer, **kwargs)
        rule = f"`speakers` must be three different ids from 0 to {input_dim - 1}."
        fits = speakers is not None and len(set(speakers) & set(range(input_dim))) == len(speakers) == 3
        expect(fits, rule, speakers=speakers)
        self.speakers = list(speakers)

    def call(self, inputs):
        inputs = ops.cast(inputs, "int32")
        return super().call(inputs) + super().call(self.segments(inputs))

    def segments(self, inputs: Any) -> Any:
        """Finds the speaker of each token.

        Args:
            inputs: Integer tensor of shape `[batch, length]`. Token ids.

        Returns:
            An integer tensor of shape `[batch, length]`, the ids of the speakers' delimiters.
        """
        begin, partner, own = self.speakers
        is_delimiter = (inputs == begin) | (inputs == partner) | (inputs == own)
        places = ops.arange(ops.shape(inputs)[1], dtype="int32")
        # The places of all delimiters in order, and the number of delimiters at or before each token.
        ordered = ops.sort(ops.where(is_delimiter, places, ops.shape(inputs)[1] - 1), axis=1)
        count = ops.cumsum(ops.cast(is_delimiter, "int32"), axis=1)
        last = ops.take_along_axis(ordered, ops.maximum(count - 1, 0), axis=1)
        found = ops.take_along_axis(inputs, last, axis=1)
        return ops.where(count == 0, own, ops.where(found == begin, partner, found))
