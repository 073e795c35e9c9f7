"""XLNet: attention by distance, pretrained on permutations of the text (Yang et al. 2019)."""

import keras
from keras import ops

from keras_transfer.encoders.base import Encoder, constructor_settings
from keras_transfer.layers.attention import AttentionBias, RelativeAttention, RelativePositions, TwoStreams, mask_bias
from keras_transfer.layers.basic import Dropout, TruncatedNormal
from keras_transfer.layers.blocks import FeedForward, TransformerBlock


@keras.saving.register_keras_serializable(package="keras_transfer")
class XLNetEncoder(Encoder):
    """XLNet's encoder: token embeddings, then post-norm blocks with relative attention, for texts of any length.

    A fine-tuned model uses the content stream alone, in which every token sees all others. XLNet is pretrained with a
    second one, the query stream: at each position, it encodes what the visible tokens say about the token there,
    without that token. There is no pooled output. A text is padded on the right. That makes no difference to
    the original, which pads on the left, because positions are relative.

    Args:
        dropout: Float between 0 and 1. Dropout rate of embeddings, attention weights, feed-forward networks, residuals
            and outputs. Defaults to `0.1`.
        two_streams: Boolean. Whether there is the query stream too. Defaults to `False`.
        vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, activation, layer_norm_epsilon,
            initializer_range: See `BertEncoder`.
        dtype, **kwargs: See `Encoder`.

    Inputs: Dict of `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]`, and, with two streams,
        `attention_mask`, `[batch, length, length]`, 1 where a position sees a token. (`perm_mask` in Transformers is
        the opposite.) In the content stream, each token also sees itself.

    Outputs: Dict of `sequence_output` and, with two streams, `query_output`, each `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.XLNetEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1906.08237
    """

    def __init__(
        self,
        vocabulary_size,
        *,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        dropout=0.1,
        two_streams=False,
        activation="gelu",
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        dtype=None,
        **kwargs,
    ):
        # === Layers ===
        settings = constructor_settings(locals())
        initializer = TruncatedNormal(stddev=initializer_range)
        weights = {"kernel_initializer": initializer, "dtype": dtype}
        token_embedding = keras.layers.Embedding(
            vocabulary_size, hidden_dim, initializer.clone(), dtype=dtype, name="token_embedding"
        )
        streams = TwoStreams(query_stream=two_streams, initializer=initializer.clone(), dtype=dtype, name="streams")
        blocks = [
            TransformerBlock(
                RelativeAttention(num_heads, two_streams=two_streams, dropout=dropout, **weights, name="attention"),
                FeedForward(intermediate_dim, activation=activation, dropout=dropout, **weights, name="feed_forward"),
                dropout=dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                dtype=dtype,
                name=f"block_{i}",
            )
            for i in range(num_layers)
        ]

        # === Functional model ===
        names = ("token_ids", "segment_ids", "padding_mask")
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        segment_ids, masks = inputs["segment_ids"], {"padding_mask": inputs["padding_mask"]}
        if two_streams:
            segment_ids = ops.concatenate([segment_ids, segment_ids], axis=0)
            masks["attention_mask"] = keras.Input((None, None), dtype="int32", name="attention_mask")
        x, bias = streams(token_embedding(inputs["token_ids"]), **masks)
        if not two_streams:  # the same bias, from the mask alone
            bias = AttentionBias(dtype=dtype, name="attention_bias")(inputs["padding_mask"])
        x = Dropout(dropout, dtype=dtype, name="embeddings_dropout")(x)
        positions = RelativePositions(dropout=dropout, dtype=dtype, name="relative_positions")(
            x, segment_ids=segment_ids
        )
        states = [x]
        for block in blocks:
            x = block(x, attention_bias=bias, **positions)
            states.append(x)
        outputs = {"sequence_output": Dropout(dropout, dtype=dtype, name="output_dropout")(x)}
        if two_streams:
            states = [ops.split(state, 2, axis=0)[0] for state in states]
            content, query = ops.split(outputs["sequence_output"], 2, axis=0)
            outputs = {"sequence_output": content, "query_output": query}
        super().__init__({**inputs, **masks}, outputs, states, dtype=dtype, settings=settings, **kwargs)

        # === Layer groups ===
        self.token_embedding = token_embedding
        self.streams = streams
        self.blocks = blocks

    def layer_groups(self):
        embeddings = ("embeddings", "embeddings", [self.token_embedding, self.streams])
        return [embeddings, *((block.name, "block", [block]) for block in self.blocks)]

    def attention_weights(self, inputs):
        if self.two_streams:
            raise ValueError(
                "The attention weights can only be computed for an `XLNetEncoder` with one stream. "
                "Received: two_streams=True"
            )
        found, bias = [], mask_bias(inputs["padding_mask"])
        x = self.token_embedding(inputs["token_ids"])
        positions = RelativePositions(dtype=self.dtype_policy)(x, segment_ids=inputs["segment_ids"])
        for block in self.blocks:
            x = block(x, attention_bias=bias, record=found.append, **positions)
        return {"encoder": found}
