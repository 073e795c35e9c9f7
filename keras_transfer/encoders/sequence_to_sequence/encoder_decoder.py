"""The base class of encoder-decoders: one functional model over both, and decoding with a cache."""

import keras

from keras_transfer.encoders.base import Encoder, StackLayers, embed, groups_of, run_blocks, step
from keras_transfer.layers.attention import AttentionBias, mask_bias


class EncoderDecoder(Encoder):
    """Base class of the models that read one text and write another (Sutskever et al. 2014; Vaswani et al. 2017).

    The decoder's blocks are causal, and their cross-attention reads what the encoder returns. `blocks` are the blocks
    of both, so that freezing and layer groups reach both. Adapters are not supported yet.

    Args:
        settings: Dict of the arguments of the subclass's constructor in order. They become attributes and the config.
        encoder: `TransformerStack`. The new model continues its graph.
        decoder: Dict of the arguments of `TransformerStack` that are the decoder's layers: `blocks` with
            `cross_attention`, and others. `token_embedding` defaults to that of the encoder.
        dtype, **kwargs: See `Encoder`.

    Inputs:
        Dict of the inputs of the encoder and of `decoder_token_ids` and `decoder_padding_mask`, each
        `[batch, decoder_length]`.

    Outputs:
        Dict of the outputs of the encoder and of `decoder_sequence_output` `[batch, decoder_length, dim]`.

    Attributes:
        encoder: The encoder.
        decoder: `StackLayers`. The layers of the decoder.
        decoder_hidden_states: List of symbolic tensors: the embeddings of the decoder, and each block's output.

    Example:
    ```python
    model = keras_transfer.encoders.Bart(50, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    isinstance(model, keras_transfer.encoders.EncoderDecoder)  # True
    classifier = keras_transfer.tasks.TextClassifier(model.encoder, num_classes=2)  # over the encoder alone
    ```

    Source: https://arxiv.org/abs/1706.03762
    """

    output_scale = None  # Factor of the vectors that the token embeddings turn into logits.
    output_bias = False  # Whether each token has a bias.

    def __init__(self, settings, encoder, decoder, dtype=None, **kwargs):
        layers = StackLayers(**{"token_embedding": encoder.token_embedding, **decoder}, dtype=dtype, prefix="decoder_")
        names = ("token_ids", "padding_mask")
        inputs = {name: keras.Input((None,), dtype="int32", name=f"decoder_{name}") for name in names}
        bias = AttentionBias(dtype=dtype, name="context_bias")(encoder.input["padding_mask"])
        context = {"context": encoder.output["sequence_output"], "context_bias": bias}
        outputs, hidden_states = run_blocks(layers, embed(layers, inputs), inputs["padding_mask"], **context)
        super().__init__(
            {**encoder.input, **{f"decoder_{name}": tensor for name, tensor in inputs.items()}},
            {**encoder.output, "decoder_sequence_output": outputs["sequence_output"]},
            encoder.hidden_states,
            dtype=dtype,
            settings=settings,
            **kwargs,
        )
        # The model has the layers of both already.
        object.__setattr__(self, "encoder", encoder)
        object.__setattr__(self, "decoder", layers)
        self.decoder_hidden_states = hidden_states
        self.token_embedding = encoder.token_embedding
        self.blocks = [*encoder.blocks, *layers.blocks]

    def layer_groups(self):
        def named(prefix, groups):
            return [(name if name.startswith(prefix) else prefix + name, kind, own) for name, kind, own in groups]

        lower = named("encoder_", groups_of(self.encoder))
        known = {id(layer) for _, _, layers in lower for layer in layers}
        upper = [
            (name, kind, own)
            for name, kind, layers in named("decoder_", groups_of(self.decoder))
            if (own := [layer for layer in layers if id(layer) not in known])
        ]
        return lower + upper

    # === Decoding with a cache ===

    def encode_context(self, inputs):
        """Returns what `step` needs of the texts that the encoder reads, computed once for all steps.

        Args:
            inputs: Dict of the inputs of the encoder, each `[batch, length]`.

        Returns:
            A dict of `cache`, the keys and values of each block's cross-attention, and `bias`, which masks padding.
        """
        context = self.encoder(inputs)["sequence_output"]
        return {
            "cache": [block.cross_attention.context_cache(context) for block in self.decoder.blocks],
            "bias": mask_bias(inputs["padding_mask"]),
        }

    def empty_cache(self, batch_size, length):
        """Returns the cache that `step` starts from, with room for `length` tokens of `batch_size` sequences."""
        return [block.empty_cache(batch_size, length) for block in self.decoder.blocks]

    def step(self, token_ids, cache, start, padding_mask=None, first=None, context=None):
        """Decodes further tokens, given the cache of the tokens before them and the context.

        Args:
            token_ids, cache, start, padding_mask, first: See `TransformerStack.step`. There may be several sequences
                for each row of the context, one after the other.
            context: What `encode_context` returns.

        Returns:
            A tuple of `decoder_sequence_output`, `[batch, length, dim]`, and the updated cache.

        Raises:
            ValueError: If there is no context.

        Example:
        ```python
        model = keras_transfer.encoders.T5(50, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        context = model.encode_context({"token_ids": np.array([[5, 6, 1]]), "padding_mask": np.ones((1, 3), "int32")})
        vectors, cache = model.step(np.array([[0]]), model.empty_cache(1, 8), start=0, context=context)
        ```
        """
        if context is None:
            raise ValueError(
                f"`{type(self).__name__}.step` requires `context`, which `encode_context` returns. "
                "Received: context=None"
            )
        return step(self.decoder, token_ids, cache, start, padding_mask, first, context)
