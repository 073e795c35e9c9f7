"""The plain Transformer of the 2019 NAACL tutorial: small, readable, trained from random weights."""

import keras

from keras_transfer.encoders.encoder import Encoder
from keras_transfer.layers import Dropout, PositionEmbedding, TransformerBlock
from keras_transfer.layers.activations import serialize_activation


@keras.saving.register_keras_serializable(package="keras_transfer")
class TransformerEncoder(Encoder):
    """Token and learned position embeddings, then Transformer blocks (Ruder et al. 2019, 'Transfer Learning in NLP').

    Args:
        vocabulary_size: int.
        num_layers: int, Transformer blocks.
        num_heads: int, attention heads.
        hidden_dim: int, width of the vectors.
        intermediate_dim: int, width of the feed-forward networks.
        dropout: float, dropout of embeddings and of what is added to the residual.
        max_sequence_length: int, rows of the position table.
        activation: `"relu"`, `"gelu"` or any other.
        norm: `"input"` (the tutorial's own), `"post"`, or `"pre"` (then a last layer norm follows the blocks).
        causal: bool, a token sees only itself and what is before it: for language modelling.
        attention_dropout: float, dropout of the attention weights (the tutorial's is 0).
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the random start weights.
        pooling, normalize, dtype, name, trainable: see `Encoder`.

    Inputs: dict of `token_ids` and `padding_mask`, each [batch, length].

    Outputs: dict of `sequence_output` [batch, length, hidden_dim].

    Example:
    ```python
    encoder = keras_transfer.encoders.TransformerEncoder(
        vocabulary_size=100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
    )
    inputs = {"token_ids": [[2, 7, 3]], "padding_mask": [[1, 1, 1]]}
    encoder({key: keras.ops.array(value) for key, value in inputs.items()})["sequence_output"]
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        dropout=0.1,
        max_sequence_length=256,
        activation="relu",
        norm="input",
        causal=False,
        attention_dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        pooling=None,
        normalize=False,
        dtype=None,
        **kwargs,
    ):
        # === Layers ===
        initializer = keras.initializers.RandomNormal(stddev=initializer_range)
        token_embedding = keras.layers.Embedding(
            vocabulary_size, hidden_dim, initializer.clone(), dtype=dtype, name="token_embedding"
        )
        position_embedding = PositionEmbedding(
            max_sequence_length, initializer.clone(), dtype=dtype, name="position_embedding"
        )
        embeddings_dropout = Dropout(dropout, dtype=dtype, name="embeddings_dropout")
        blocks = [
            TransformerBlock(
                num_heads,
                intermediate_dim,
                dropout=dropout,
                attention_dropout=attention_dropout,
                activation=activation,
                norm=norm,
                causal=causal,
                layer_norm_epsilon=layer_norm_epsilon,
                kernel_initializer=initializer.clone(),
                dtype=dtype,
                name=f"block_{i}",
            )
            for i in range(num_layers)
        ]
        final_norm = (
            keras.layers.LayerNormalization(epsilon=layer_norm_epsilon, dtype=dtype, name="final_norm")
            if norm == "pre"
            else None
        )

        # === Functional model ===
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
        x = token_embedding(inputs["token_ids"])
        x = embeddings_dropout(x + position_embedding(x))
        hidden_states = [x]
        for block in blocks:
            x = block(x, padding_mask=inputs["padding_mask"])
            hidden_states.append(x)
        outputs = {"sequence_output": x if final_norm is None else final_norm(x)}
        super().__init__(inputs, outputs, hidden_states, pooling, normalize, dtype, **kwargs)

        # === Config ===
        self.token_embedding = token_embedding
        self.position_embedding = position_embedding
        self.blocks = blocks
        self.final_norm = final_norm
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length
        self.activation = activation
        self.norm = norm
        self.causal = causal
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

    def ladder(self):
        groups = [("embeddings", "embeddings", [self.token_embedding, self.position_embedding])]
        groups += [(block.name, "block", [block]) for block in self.blocks]
        return groups + ([("final_norm", "other", [self.final_norm])] if self.final_norm is not None else [])

    def get_config(self):
        return {
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "max_sequence_length": self.max_sequence_length,
            "activation": serialize_activation(self.activation),
            "norm": self.norm,
            "causal": self.causal,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            **super().get_config(),
        }
