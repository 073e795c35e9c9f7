"""XLNet: attention by distance, pretrained on permutations of the text (Yang et al. 2019)."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_transfer.core.expect import FLAG, expect, expects
from keras_transfer.encoders.encoder import Encoder, constructor_settings
from keras_transfer.encoders.wiring import Parts
from keras_transfer.layers import (
    AttentionBias,
    Dropout,
    RelativeAttention,
    RelativePositions,
    TakeQueryStream,
    TwoStreams,
    mask_bias,
)


@keras.saving.register_keras_serializable(package="keras_transfer")
class XLNetEncoder(Encoder):
    """XLNet's encoder: token embeddings, then post-norm blocks with relative attention, for texts of any length.

    The encoder is the content stream, in which every token sees all others. XLNet is pretrained with a second one, the
    query stream: at the position of a token that is predicted, it encodes what the visible tokens say about the token
    there, without that token. `query_stream` computes it with the same weights, and `tasks.PermutationLM` trains it.
    There is no pooled output. A text is padded on the right. That makes no difference to the original, which pads on
    the left, because positions are relative.

    Args:
        vocabulary_size: Integer. Number of tokens.
        num_layers: Integer. Number of Transformer blocks.
        num_heads: Integer. Number of attention heads.
        hidden_dim: Integer. Width of the token vectors.
        intermediate_dim: Integer. Width of the feed-forward networks.
        dropout: Float between 0 and 1. Dropout rate of embeddings, attention weights, feed-forward networks, residuals
            and outputs. Defaults to `0.1`.
        two_streams: Boolean. Whether there is a query stream, which starts from a vector that trains. Defaults to
            `False`, for an encoder that only keeps this vector.
        activation: String or callable. Activation of the feed-forward networks. Defaults to `"gelu"`.
        layer_norm_epsilon: Float. Added to the variance in layer normalization. Defaults to `1e-12`.
        initializer_range: Float. Standard deviation of the initial weights. Defaults to `0.02`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Inputs: Dict of `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output`, `[batch, length, hidden_dim]`.

    Example:
    ```python
    encoder = keras_transfer.encoders.XLNetEncoder(100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder({name: np.array([[1, 1, 0]]) for name in encoder.input})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1906.08237
    """

    @expects(two_streams=FLAG)
    def __init__(
        self,
        vocabulary_size: int,
        *,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        two_streams: bool = False,
        activation: str | Callable = "gelu",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        dtype: Any = None,
        **kwargs: Any,
    ):
        # === Layers ===
        settings = constructor_settings(locals())
        parts = Parts(settings, dtype)
        token_embedding = parts.tokens()
        initializer = parts.initializer.clone()
        streams = TwoStreams(query_stream=two_streams, initializer=initializer, dtype=dtype, name="streams")
        blocks = parts.blocks(attention=RelativeAttention, activation_dropout=dropout)

        # === Functional model ===
        names = ("token_ids", "segment_ids", "padding_mask")
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        x = token_embedding(inputs["token_ids"])
        take_query_stream = None
        if two_streams:  # Only a model of the query stream has the vector among its weights.
            streams.build(x.shape)
            take_query_stream = TakeQueryStream(dtype=dtype, name="take_query_stream")
            take_query_stream.build(x.shape)
        else:
            x, _ = streams(x, padding_mask=inputs["padding_mask"])
        bias = AttentionBias(dtype=dtype, name="attention_bias")(inputs["padding_mask"])
        embeddings_dropout = Dropout(dropout, dtype=dtype, name="embeddings_dropout")
        relative_positions = RelativePositions(dropout=dropout, dtype=dtype, name="relative_positions")
        output_dropout = Dropout(dropout, dtype=dtype, name="output_dropout")
        x = embeddings_dropout(x)
        positions = relative_positions(x, segment_ids=inputs["segment_ids"])
        states = [x]
        for block in blocks:
            x = block(x, attention_bias=bias, **positions)
            states.append(x)
        outputs = {"sequence_output": output_dropout(x)}
        super().__init__(inputs, outputs, states, dtype=dtype, settings=settings, **kwargs)

        # === Layers that `query_stream` and the layer groups use ===
        self.token_embedding = token_embedding
        self.streams = streams
        self.embeddings_dropout = embeddings_dropout
        self.relative_positions = relative_positions
        self.blocks = blocks
        self.output_dropout = output_dropout
        self.take_query_stream = take_query_stream

    def query_stream(self, inputs: Mapping) -> Any:
        """Returns what the visible tokens say about the tokens at some positions, from the query stream.

        Args:
            inputs: Dict of tensors, symbolic or not: the encoder's inputs; `factorization_order`, integers [batch,
                length], in which the query stream at a position sees the tokens with lower numbers, and the content
                stream also those with the same number; and `mask_positions`, integers [batch, places], negative at
                unused places. `objectives.PermutationLanguageModel` makes both. (`perm_mask` in Transformers is 1 where
                a token does not see another, and `target_mapping` has a 1 at each of the positions.) At each position,
                the query stream must see at least one token, or the attention is not masked there.

        Returns:
            A tensor of shape `[batch, places, hidden_dim]`.

        Raises:
            ValueError: If the encoder has no query stream, or if an input is missing.

        Example:
        ```python
        sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
        encoder = keras_transfer.encoders.XLNetEncoder(100, **sizes, two_streams=True)
        inputs = {"token_ids": np.array([[7, 8, 9]]), "segment_ids": np.zeros((1, 3), "int32")}
        inputs["padding_mask"] = np.ones((1, 3), "int32")
        encoder.query_stream(
            {**inputs, "factorization_order": np.array([[0, 2, 1]]), "mask_positions": np.array([[1, 2]])}
        )
        ```
        """
        rule = "The encoder must have a query stream: `XLNetEncoder(..., two_streams=True)`."
        expect(self.two_streams, rule, two_streams=False)
        names = ("padding_mask", "segment_ids", "factorization_order", "mask_positions")
        wanted = {"token_ids", *names}
        expect(wanted <= set(inputs), f"`inputs` must have {sorted(wanted)}.", inputs=sorted(inputs))
        x = self.token_embedding(inputs["token_ids"])
        streams, bias, segment_ids, distances = self.streams(x, **{name: inputs[name] for name in names})
        positions = self.relative_positions(x, segment_ids=segment_ids)["relative_positions"]
        x = self.embeddings_dropout(streams)
        for block in self.blocks:
            x = block(x, attention_bias=bias, relative_positions=(*positions, distances))
        return self.output_dropout(self.take_query_stream(x, inputs["mask_positions"]))

    def layer_groups(self) -> list:
        embeddings = ("embeddings", "embeddings", [self.token_embedding, self.streams])
        return [embeddings, *((block.name, "block", [block]) for block in self.blocks)]

    def attention_weights(self, inputs: Mapping, heads: list | None = None, neurons: list | None = None) -> dict:
        """Returns the weights of attention; see `TransformerStack.attention_weights`.

        Args:
            inputs: Dict of tensors, one for each input of the encoder.
            heads: List to which the outputs of the heads of each block are appended. Defaults to `None`.
            neurons: The same for the neurons. Defaults to `None`.

        Returns:
            A dict with the key `encoder`.
        """
        found: list = []  # The weights of each block, and the outputs of its heads.
        options: dict = {"attention_bias": mask_bias(inputs["padding_mask"]), "record": lambda *own: found.append(own)}
        options["record_neurons"] = None if neurons is None else neurons.append
        x = self.token_embedding(inputs["token_ids"])
        positions = RelativePositions(dtype=self.dtype_policy)(x, segment_ids=inputs["segment_ids"])
        for block in self.blocks:
            x = block(x, **options, **positions)
        if heads is not None:
            heads += [outputs for _, outputs in found]
        return {"encoder": [weights for weights, _ in found]}
