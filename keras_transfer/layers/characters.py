"""Words from their characters: ELMo's convolutions, highways and projection."""

import keras
from keras import ops

from keras_transfer.layers.activations import get_activation, serialize_activation


@keras.saving.register_keras_serializable("keras_transfer")
class CharacterCNN(keras.layers.Layer):
    """A vector of each word from the ids of its characters (Kim et al. 2016), as in ELMo.

    Embeddings of the characters, convolutions of several widths, the maximum over the word, highway layers, and a
    projection.

    Args:
        vocabulary_size: int, the number of character ids; 0 is padding.
        embedding_dim: int, the width of a character's embedding.
        filters: list of `(width, number)`: for each width in characters how many filters.
        output_dim: int, the width of a word's vector; None for that of the filters together, without a projection.
        num_highways: int, highway layers.
        activation: of the convolutions: `"relu"`, `"tanh"` or any other that Keras knows.

    Inputs: [batch, length, characters] int32.

    Returns:
        [batch, length, output_dim].

    Raises:
        ValueError: when built, if words have fewer characters than the widest filter.

    Example:
    ```python
    layer = keras_transfer.layers.CharacterCNN(262, 4, [(1, 4), (2, 8)], output_dim=6)
    layer(np.zeros((2, 5, 50), "int32"))
    ```

    Source: https://arxiv.org/abs/1508.06615; https://arxiv.org/abs/1802.05365, section 3.4.
    """

    def __init__(
        self, vocabulary_size, embedding_dim, filters, output_dim=None, num_highways=2, activation="relu", **options
    ):
        super().__init__(**options)
        self.vocabulary_size, self.embedding_dim = vocabulary_size, embedding_dim
        self.filters = [tuple(pair) for pair in filters]
        self.output_dim, self.num_highways = output_dim, num_highways
        self.activation = get_activation(activation)
        part = {"dtype": self.dtype_policy}
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, name="embedding", **part)
        self.convolutions = [
            keras.layers.Conv1D(number, width, name=f"convolution_{i}", **part)
            for i, (width, number) in enumerate(self.filters)
        ]
        dim = sum(number for _, number in self.filters)
        self.highways = [
            (
                keras.layers.Dense(dim, "sigmoid", name=f"highway_{i}_gate", **part),
                keras.layers.Dense(dim, "relu", name=f"highway_{i}_transform", **part),
            )
            for i in range(num_highways)
        ]
        self.projection = keras.layers.Dense(output_dim, name="projection", **part) if output_dim else None

    def build(self, ids_shape):
        characters, widest = ids_shape[-1], max(width for width, _ in self.filters)
        if characters is not None and characters < widest:
            raise ValueError(
                f"words must have {widest} characters at least, the widest filter's. Received: {characters}"
            )
        self.embedding.build((None, characters))
        for convolution in self.convolutions:
            convolution.build((None, characters, self.embedding_dim))
        dim = sum(number for _, number in self.filters)
        for layer in (part for pair in self.highways for part in pair):
            layer.build((None, dim))
        if self.projection is not None:
            self.projection.build((None, dim))

    def call(self, ids):
        if 0 in tuple(ids.shape):
            raise ValueError(f"there must be a word at least. Received: ids of shape {tuple(ids.shape)}")
        batch, length, characters = ops.shape(ids)
        embedded = self.embedding(ops.reshape(ids, (-1, characters)))
        words = [self.activation(ops.max(convolution(embedded), axis=1)) for convolution in self.convolutions]
        words = ops.concatenate(words, axis=-1)
        for gate, transform in self.highways:
            share = gate(words)
            words = share * transform(words) + (1 - share) * words
        if self.projection is not None:
            words = self.projection(words)
        return ops.reshape(words, (batch, length, words.shape[-1]))

    def compute_output_shape(self, ids_shape):
        return (*ids_shape[:2], self.output_dim or sum(number for _, number in self.filters))

    def get_config(self):
        names = ("vocabulary_size", "embedding_dim", "filters", "output_dim", "num_highways")
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **own, "activation": serialize_activation(self.activation)}
