"""BERT: a bidirectional Transformer (Devlin et al. 2019)."""

import keras

from keras_transfer.encoders.encoder import Encoder
from keras_transfer.layers import Dropout, PositionEmbedding, TransformerBlock
from keras_transfer.layers.activations import serialize_activation


@keras.saving.register_keras_serializable(package="keras_transfer")
class BertEncoder(Encoder):
    """BERT's encoder: token, position and segment embeddings, post-norm Transformer blocks, a pooler.

    Args:
        vocabulary_size: int.
        num_layers: int, Transformer blocks.
        num_heads: int, attention heads.
        hidden_dim: int, width of the vectors.
        intermediate_dim: int, width of the feed-forward networks.
        dropout: float, dropout of embeddings and of what is added to the residual.
        max_sequence_length: int, rows of the position table.
        num_segments: int; 0 for no segment embeddings.
        attention_dropout: float, dropout of the attention weights; None for the same as `dropout`.
        activation: `"gelu"` (exact, as the original and Hugging Face) or `"gelu_tanh"` (as KerasHub), or any other.
        pooler: bool, whether there is a `pooled_output`: tanh of a dense layer on the first token.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the random start weights.
        pooling, normalize, dtype, name, trainable: see `Encoder`.

    Inputs: dict of `token_ids`, `segment_ids` (not with `num_segments=0`) and `padding_mask`, each [batch, length].

    Outputs: dict of `sequence_output` [batch, length, hidden_dim] and `pooled_output` [batch, hidden_dim].

    Example:
    ```python
    encoder = keras_transfer.encoders.BertEncoder(
        vocabulary_size=100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16
    )
    inputs = {"token_ids": [[2, 7, 3]], "segment_ids": [[0, 0, 0]], "padding_mask": [[1, 1, 1]]}
    encoder({key: keras.ops.array(value) for key, value in inputs.items()})["pooled_output"]
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
        max_sequence_length=512,
        num_segments=2,
        attention_dropout=None,
        activation="gelu",
        pooler=True,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        pooling=None,
        normalize=False,
        dtype=None,
        **kwargs,
    ):
        # === Layers ===
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)

        def embedding(size, name):
            return keras.layers.Embedding(size, hidden_dim, initializer.clone(), dtype=dtype, name=name)

        token_embedding = embedding(vocabulary_size, "token_embedding")
        position_embedding = PositionEmbedding(
            max_sequence_length, initializer.clone(), dtype=dtype, name="position_embedding"
        )
        segment_embedding = embedding(num_segments, "segment_embedding") if num_segments else None
        embeddings_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=dtype, name="embeddings_norm"
        )
        embeddings_dropout = Dropout(dropout, dtype=dtype, name="embeddings_dropout")
        blocks = [
            TransformerBlock(
                num_heads,
                intermediate_dim,
                dropout=dropout,
                attention_dropout=dropout if attention_dropout is None else attention_dropout,
                activation=activation,
                norm="post",
                layer_norm_epsilon=layer_norm_epsilon,
                kernel_initializer=initializer.clone(),
                dtype=dtype,
                name=f"block_{i}",
            )
            for i in range(num_layers)
        ]
        pooler_dense = (
            keras.layers.Dense(
                hidden_dim, activation="tanh", kernel_initializer=initializer.clone(), dtype=dtype, name="pooler"
            )
            if pooler
            else None
        )

        # === Functional model ===
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
        x = token_embedding(inputs["token_ids"])
        x = x + position_embedding(x)
        if num_segments:
            inputs["segment_ids"] = keras.Input((None,), dtype="int32", name="segment_ids")
            x = x + segment_embedding(inputs["segment_ids"])
        x = embeddings_dropout(embeddings_norm(x))
        hidden_states = [x]
        for block in blocks:
            x = block(x, padding_mask=inputs["padding_mask"])
            hidden_states.append(x)
        outputs = {"sequence_output": x}
        if pooler:
            outputs["pooled_output"] = pooler_dense(x[:, 0])
        super().__init__(inputs, outputs, hidden_states, pooling, normalize, dtype, **kwargs)

        # === Config ===
        self.token_embedding = token_embedding
        self.position_embedding = position_embedding
        self.segment_embedding = segment_embedding
        self.embeddings_norm = embeddings_norm
        self.blocks = blocks
        self.pooler = pooler_dense
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

    def ladder(self):
        embeddings = [self.token_embedding, self.position_embedding, self.segment_embedding, self.embeddings_norm]
        groups = [("embeddings", "embeddings", [layer for layer in embeddings if layer is not None])]
        groups += [(block.name, "block", [block]) for block in self.blocks]
        return groups + ([("pooler", "pooler", [self.pooler])] if self.pooler is not None else [])

    def get_config(self):
        return {
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "attention_dropout": self.attention_dropout,
            "activation": serialize_activation(self.activation),
            "pooler": self.pooler is not None,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            **super().get_config(),
        }
