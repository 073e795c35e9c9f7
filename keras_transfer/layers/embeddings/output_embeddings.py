"""The head of language models that use their token embeddings as output embeddings."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transfer")
class OutputEmbeddings(keras.layers.Layer):
    """Scores every token of the vocabulary by the product of a vector and the token's embedding (Press & Wolf 2017).

    The layer has no table of its own. It uses the table of the embedding layer, which is another layer of the model.

    Args:
        token_embedding: `keras.layers.Embedding`. The layer from token ids to vectors.
        use_bias: Boolean. Whether each token has a bias of its own. Defaults to `False`.
        scale: Float. Factor of the vectors (T5). Defaults to `None`, for no factor.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[..., dim]`.

    Returns:
        A float32 tensor of shape `[..., vocabulary_size]`, the logits.

    Example:
    ```python
    embedding = keras.layers.Embedding(10, 4)
    vectors = embedding(np.array([[1, 2, 3]]))
    logits = keras_transfer.layers.OutputEmbeddings(embedding)(vectors)  # [1, 3, 10]
    ```

    Source: https://arxiv.org/abs/1608.05859
    """

    def __init__(
        self,
        token_embedding: keras.layers.Embedding,
        *,
        use_bias: bool = False,
        scale: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.scale = scale
        object.__setattr__(self, "token_embedding", token_embedding)  # Keras must not track its weights here.
        self.use_bias = use_bias

    def build(self, input_shape):
        if self.use_bias:
            size = self.token_embedding.input_dim
            self.bias = self.add_weight(name="bias", shape=(size,), initializer="zeros", autocast=False)

    def call(self, inputs):
        rows = ops.shape(inputs)[:-1]
        x = ops.reshape(ops.cast(inputs, self.compute_dtype), (-1, inputs.shape[-1]))
        x = x if self.scale is None else x * self.scale
        table = ops.cast(table_of(self.token_embedding), self.compute_dtype)
        if len(inputs.shape) == 2:
            # A step of a decoder has few vectors. Outside of XLA, TensorFlow takes up to ten times as long for their
            # product with the transposed table, whose copy in another order takes longer than the product.
            logits = ops.transpose(_products(table, ops.transpose(x)))
        else:
            logits = ops.matmul(x, ops.transpose(table))
        logits = ops.cast(logits, "float32")
        logits = logits + ops.cast(self.bias, "float32") if self.use_bias else logits
        return ops.reshape(logits, (*rows, table.shape[0]))

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((*inputs.shape[:-1], self.token_embedding.input_dim), "float32")

    def get_config(self):
        return {
            **super().get_config(),
            "token_embedding": keras.saving.serialize_keras_object(self.token_embedding),
            "use_bias": self.use_bias,
            "scale": self.scale,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "token_embedding": keras.saving.deserialize_keras_object(config["token_embedding"])})


def _products(table, vectors):
    """Returns the products `[vocabulary_size, count]` of a table and few vectors `[dim, count]`."""
    # XLA of TensorFlow 2.21 on CPUs takes 1.2 times as long for one vector and a whole table as for two parts of it.
    if vectors.shape[1] == 1:
        half = table.shape[0] // 2
        return ops.concatenate([ops.matmul(table[:half], vectors), ops.matmul(table[half:], vectors)])
    # It turns a transposed product into one with the transposed table, which takes 1.3 times as long, unless something
    # is added to the product.
    return ops.matmul(table, vectors) + 0.0 * vectors[:1]


def table_of(embedding):
    """Returns the table of an embedding layer, `[vocabulary_size, dim]`, also if the layer is quantized."""
    if embedding.quantization_mode is None:
        return embedding.embeddings
    return embedding(ops.arange(embedding.input_dim))  # The stored integers have no scale.
