"""Embeddings that are more than a table look-up."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transfer")
class PositionEmbedding(keras.layers.Layer):
    """Learned absolute positions: row `i` of a table for the `i`-th token (Gehring et al. 2017; BERT).

    Args:
        max_sequence_length: int, the rows of the table: the longest sequence it can place.
        initializer: initializer of the table.

    Call arguments:
        inputs: [batch, length, dim], the token embeddings (only their shape is read).
        start: int, the position of the first token (when decoding with a cache).

    Returns:
        [1, length, dim], to be added to the token embeddings.

    Raises:
        ValueError: the sequence is longer than the table.

    Example:
    ```python
    tokens = keras.random.normal((2, 5, 8))
    tokens + keras_transfer.layers.PositionEmbedding(max_sequence_length=16)(tokens)
    ```
    """

    def __init__(self, max_sequence_length, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_sequence_length, input_shape[-1]),
            initializer=self.initializer,
        )

    def call(self, inputs, start=0):
        if isinstance(start, int):
            self._check(inputs.shape[1], start)
        length = ops.shape(inputs)[1]
        if isinstance(start, int) and start == 0:
            positions = self.embeddings[:length]
        else:
            positions = ops.slice(ops.convert_to_tensor(self.embeddings), (start, 0), (length, inputs.shape[-1]))
        return ops.expand_dims(ops.cast(positions, self.compute_dtype), 0)

    def _check(self, length, start=0):
        if length is not None and start + length > self.max_sequence_length:
            raise ValueError(
                f"the position table has {self.max_sequence_length} rows: a sequence may have at most that many "
                f"tokens; truncate it (`sequence_length` of the preprocessor). Received: {start + length} tokens"
            )

    def compute_output_shape(self, input_shape):
        self._check(input_shape[1])
        return (1, *input_shape[1:])

    def get_config(self):
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "initializer": keras.initializers.serialize(self.initializer),
        }
