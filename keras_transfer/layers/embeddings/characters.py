"""Word vectors from characters: ELMo's convolutions, highway layers and projection."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.layers.basic.activations import get_activation
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class CharacterCNN(ConfigOfArguments, keras.layers.Layer):
    """Computes a vector for each word from the ids of its characters (Kim et al. 2016), as in ELMo.

    It embeds the characters, applies convolutions of several widths, takes the maximum over the word, and applies
    highway layers and a projection.

    Args:
        vocabulary_size: Integer. Number of character ids. 0 is padding.
        embedding_dim: Integer. Width of a character's embedding.
        filters: List of `(width, number)`. Number of filters for each width in characters.
        output_dim: Integer. Width of a word's vector. Defaults to `None`, the number of all filters, without a
            projection.
        num_highways: Integer. Number of highway layers. Defaults to `2`.
        activation: String or callable. Activation of the convolutions. Defaults to `"relu"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Inputs: Tensor of shape `[batch, length, characters]`, int32.

    Returns:
        A tensor of shape `[batch, length, output_dim]`.

    Raises:
        ValueError: If words have fewer characters than the width of the widest filter, or if there is no word.

    Example:
    ```python
    layer = keras_transfer.layers.CharacterCNN(262, embedding_dim=4, filters=[(1, 4), (2, 8)], output_dim=6)
    layer(np.zeros((2, 5, 50), "int32"))
    ```

    Source: https://arxiv.org/abs/1508.06615; https://arxiv.org/abs/1802.05365, section 3.4.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int,
        filters: Sequence,
        output_dim: int | None = None,
        num_highways: int = 2,
        activation: str | Callable = "relu",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
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
        rule = f"Words must have at least {widest} characters, the width of the widest filter."
        expect(characters is None or characters >= widest, rule, ids_shape=ids_shape)
        self.embedding.build((None, characters))
        for convolution in self.convolutions:
            convolution.build((None, characters, self.embedding_dim))
        dim = sum(number for _, number in self.filters)
        for layer in (part for pair in self.highways for part in pair):
            layer.build((None, dim))
        if self.projection is not None:
            self.projection.build((None, dim))

    def call(self, ids):
        expect(0 not in tuple(ids.shape), "Inputs must contain at least one word.", ids=ids.shape)
        batch, length, characters = ops.shape(ids)
        embedded = self.embedding(ops.reshape(ids, (-1, characters)))
        words = [self.activation(ops.max(convolution(embedded), axis=1)) for convolution in self.convolutions]
        words = ops.concatenate(words, axis=-1)
        for gate, transform in self.highways:
            fraction = gate(words)
            words = fraction * transform(words) + (1 - fraction) * words
        if self.projection is not None:
            words = self.projection(words)
        return ops.reshape(words, (batch, length, words.shape[-1]))

    def compute_output_shape(self, ids_shape):
        return (*ids_shape[:2], self.output_dim or sum(number for _, number in self.filters))
