"""The base class of encoder-decoders: one functional model over both, and decoding with a cache."""

import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.encoders.stack import (
    StackLayers,
    check_further_inputs,
    embed,
    groups_of,
    run_and_record,
    run_blocks,
    step,
    takes_positions,
)
from keras_transfer.layers import AttentionBias, mask_bias


class EncoderDecoder(Encoder):
    """Base class of the models that encode one text and write another (Sutskever et al. 2014; Vaswani et al. 2017).

    The decoder's blocks are causal, and their cross-attention attends to the encoder's outputs. `blocks` are the blocks
    of both, so that freezing, layer groups and adapters reach both.

    Args:
        settings: Dict of the arguments of the subclass's constructor in order. They become attributes and the config.
        encoder: `TransformerStack`. The new model continues its graph.
        decoder: Dict of the arguments of `TransformerStack` that are the decoder's layers: `blocks` with
            `cross_attention`, and others. `token_embedding` defaults to the encoder's.
        context_projection: Layer applied to the encoder's outputs before cross-attention. Defaults to `None`.
        further_inputs: Tuple of strings, names of further inputs of any of these models whose decoder has absolute
            positions: `"decoder_positions"` `[batch, decoder_length]`, in place of 0, 1, 2, ..., which
            `objectives.SpanPrediction` needs. Defaults to `()`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        start_token: Integer. If given, the model encodes a single text: the decoder's input is the encoder's text,
            moved to the right by this token. Defaults to `None`, for two texts.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Inputs: Dict of the encoder's inputs and of `decoder_token_ids` and `decoder_padding_mask`, each
    `[batch, decoder_length]`. For a single text, only the encoder's inputs.

    Outputs: Dict of the encoder's outputs and of `decoder_sequence_output` `[batch, decoder_length, dim]`. For a single
    text, only `sequence_output` `[batch, length, dim]` of the decoder.

    Raises:
        ValueError: If there is no such further input.

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
    initial_output_bias = None  # The initial values of these biases, if they are not 0.
    starts_with_padding = True  # Whether the decoder begins with the padding token if no checkpoint says otherwise.
    checkpoints_have_start = False  # Whether a checkpoint must say with which token the decoder begins.
    default_start: int | None = (
        None  # The id of this token where its configuration does not mention it, as in Transformers.
    )

    def __init__(
        self,
        settings: Mapping,
        encoder: keras.Model,
        decoder: Mapping,
        context_projection: keras.layers.Layer | None = None,
        further_inputs: Sequence[str] = (),
        dtype: Any = None,
        start_token: int | None = None,
        **kwargs: Any,
    ):
        layers = StackLayers(**{"token_embedding": encoder.token_embedding, **decoder}, dtype=dtype, prefix="decoder_")
        is_single = start_token is not None
        known = ["decoder_positions"] if takes_positions(layers.position_embedding) and not is_single else []
        further = check_further_inputs(further_inputs, known)
        if is_single:
            inputs, settings = _moved(encoder.input, start_token), {**settings, "start_token": start_token}
        else:
            names = ("token_ids", "padding_mask", *(name.removeprefix("decoder_") for name in further))
            inputs = {name: keras.Input((None,), dtype="int32", name=f"decoder_{name}") for name in names}
        settings = {**settings, "further_inputs": list(further)} if further else settings
        sequence = encoder.output["sequence_output"]
        sequence = sequence if context_projection is None else context_projection(sequence)
        outputs, hidden_states = self.connect(encoder, layers, inputs, sequence, dtype)
        both = {**encoder.output, "decoder_sequence_output": outputs["sequence_output"]}
        super().__init__(
            encoder.input if is_single else encoder.input | {f"decoder_{name}": inputs[name] for name in inputs},
            outputs if is_single else both,
            hidden_states if is_single else encoder.hidden_states,
            dtype=dtype,
            settings=settings,
            **kwargs,
        )
        # The model has the layers of both already.
        object.__setattr__(self, "encoder", encoder)
        encoder.attached.share_blocks(weakref.ref(self))
        self.attached.share_blocks(lambda: encoder)
        object.__setattr__(self, "decoder", layers)
        object.__setattr__(self, "context_projection", context_projection)
        # Without a pooler, whose output no decoder uses.
        object.__setattr__(self, "context_model", keras.Model(encoder.input, sequence, name="context"))
        self.further_inputs = tuple(further_inputs)
        self.decoder_hidden_states = hidden_states
        self.token_embedding = encoder.token_embedding
        self.blocks = [*encoder.blocks, *layers.blocks]

    @staticmethod
    def connect(encoder: keras.Model, decoder: StackLayers, inputs: Mapping, sequence: Any, dtype: Any) -> tuple:
        """Runs the decoder in the graph of the encoder.

        Args:
            encoder: `TransformerStack`.
            decoder: `StackLayers`.
            inputs: Dict of the inputs of the decoder, without their prefix.
            sequence: Symbolic tensor of shape `[batch, length, dim]`, the context.
            dtype: Dtype or dtype policy of further layers.

        Returns:
            A tuple of a dict with `sequence_output`, and the list of hidden states.
        """
        bias = AttentionBias(dtype=dtype, name="context_bias")(encoder.input["padding_mask"])
        context = {"context": sequence, "context_bias": bias}
        return run_blocks(decoder, embed(decoder, inputs), inputs["padding_mask"], **context)

    @classmethod
    def from_encoders(
        cls,
        encoder: keras.Model | str | os.PathLike,
        decoder: keras.Model | str | os.PathLike | None = None,
        *,
        tied: bool = False,
        name: str | None = None,
        **overrides: Any,
    ) -> "EncoderDecoder":
        """Builds an encoder-decoder from two pretrained encoders, whose cross-attention is new.

        Known combinations (Rothe et al. 2020) are two of BERT or RoBERTa, one for each half; BERT and GPT-2; and one
        encoder for both halves whose layers are shared (`tied=True`), which needs half of the memory.

        The new weights are random and must be trained. They are logged, and `model.checkpoint_report.new` lists them.
        `layer_groups` has them in groups of their own on top, so that `GradualUnfreezing` trains them first, and a
        `LayerwiseOptimizer` with the highest rates; `freeze(model, "pretrained")` trains them alone. If a checkpoint of
        the decoder contains the head of a masked language model, the head is loaded, too.

        Args:
            encoder: `TransformerStack`, whose weights the model shares, or a source as for `from_pretrained`.
            decoder: `TransformerStack` or a source, of which the decoder is a copy. Defaults to `None`, the encoder.
            tied: Boolean. Whether the decoder shares all layers with the encoder except for the new ones. Defaults to
                `False`.
            name: String. Name of the model. Defaults to `None`.
            **overrides: Arguments of the encoders that differ from the sources', such as `dropout=0.0`.

        Returns:
            A `ComposedEncoderDecoder`, for `Seq2SeqLM`. If the tokenizers differ, pass a preprocessor for each half.

        Raises:
            CheckpointError: If a source cannot be read, or is no checkpoint of a `TransformerStack`.
            ValueError: If a half is of another class, if the decoder has adapters or cannot decode with a cache, or if
                `tied=True` and there is another decoder.

        Example:
        ```python
        model = keras_transfer.encoders.EncoderDecoder.from_encoders("minilm-l6", tied=True)
        print(keras_transfer.adaptation.layer_groups(model)[-2:])
        ```

        Source: https://arxiv.org/abs/1907.12461; https://arxiv.org/abs/1611.02683
        """
        from keras_transfer.checkpoints import compose

        return compose(encoder, decoder, tied, name, overrides)

    def block_layers(self, block: keras.layers.Layer) -> list:
        """Returns the layers of a decoder block that form its layer group.

        Args:
            block: `TransformerBlock` of the decoder.

        Returns:
            A list of layers.
        """
        return [block]

    def layer_groups(self) -> list:
        known, groups = set(), []
        for prefix, half in (("encoder_", self.encoder), ("decoder_", self.decoder)):
            for name, kind, layers in groups_of(half):
                name = name if name.startswith(prefix) else prefix + name
                parts = self.block_layers(layers[0]) if kind == "block" else layers
                if half is self.encoder:
                    known.update(map(id, (*layers, *parts)))
                    groups.append((name, kind, layers))
                elif own := [layer for layer in parts if id(layer) not in known]:
                    groups.append((name, kind, own))
        return groups

    def adapters_changed(self) -> None:
        # The encoder keeps this model alive only while its blocks have adapters of it.
        self.encoder.attached.share_blocks((lambda: self) if self.adapters else weakref.ref(self))

    def decode_alone(self, inputs: Mapping) -> Any:
        """Returns what the decoder returns without cross-attention, as a language model of its own.

        Args:
            inputs: Dict of the inputs of the decoder, each `[batch, decoder_length]`.

        Returns:
            A tensor of shape `[batch, decoder_length, dim]`.
        """
        given = self._of_decoder(inputs)
        x = embed(self.decoder, given)
        outputs, _ = run_blocks(self.decoder, x, given["padding_mask"], with_context=False)
        return outputs["sequence_output"]

    def attention_weights(self, inputs: Mapping) -> dict:
        context = self.context_model({name: inputs[name] for name in self.encoder.input})
        options = {"context": context, "context_bias": mask_bias(inputs["padding_mask"])}
        own, cross = run_and_record(self.decoder, self._of_decoder(inputs), **options)
        return {**self.encoder.attention_weights(inputs), "decoder": own, "cross": cross}

    def _of_decoder(self, inputs):
        """Returns the decoder's inputs, without their prefix."""
        if "decoder_token_ids" not in self.input:
            return _moved(inputs, self.start_token)
        given = {name: inputs[f"decoder_{name}"] for name in ("token_ids", "padding_mask")}
        return given | {name.removeprefix("decoder_"): inputs[name] for name in self.further_inputs}

    # === Decoding with a cache ===

    def encode_context(self, inputs: Mapping) -> dict:
        """Returns what `step` needs from the encoder's texts, computed once for all steps.

        Args:
            inputs: Dict of the inputs of the encoder, each `[batch, length]`. One that is missing, such as
                `segment_ids`, is 0.

        Returns:
            A dict of `cache`, the keys and values of each block's cross-attention, and the `padding_mask`.
        """
        zeros = ops.zeros_like(inputs["token_ids"])
        given = {name: ops.convert_to_tensor(inputs.get(name, zeros)) for name in self.encoder.input}
        context = self.context_model(given)
        return {
            "cache": [block.cross_attention.context_cache(context) for block in self.decoder.blocks],
            "padding_mask": given["padding_mask"],
        }

    def empty_cache(self, batch_size: int, length: int) -> list:
        """Returns the cache with which `step` starts.

        Args:
            batch_size: Integer. Number of sequences.
            length: Integer. Largest number of tokens in a sequence.

        Returns:
            A list of dicts, one for each decoder block: tuples of keys and values, each of shape `[batch, heads,
            length, head_dim]`.
        """
        return [block.empty_cache(batch_size, length) for block in self.decoder.blocks]

    def step(
        self,
        token_ids: Any,
        cache: Sequence,
        start: int,
        padding_mask: Any = None,
        first: Any = None,
        context: Any = None,
    ) -> tuple:
        """Decodes further tokens, given the cache of the tokens before them and the context.

        Args:
            token_ids: Integer tensor of shape `[batch, tokens]`. There may be several sequences for each row of the
                context, one after the other.
            cache: List from `empty_cache` or from the last step.
            start: Integer or integer tensor. Position in the cache of the first of these tokens.
            padding_mask: Integer tensor of shape `[batch, cache_length]`, 1 for a real token. Defaults to `None`, all
                tokens are real.
            first: Integer tensor of shape `[batch]`. Position in the cache of the first token of each sequence.
                Defaults to `None`, 0 for all.
            context: Tensor or tuple that `encode_context` returns. Defaults to `None`, an error.

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
        rule = f"`{type(self).__name__}.step` requires `context`, which `encode_context` returns."
        expect(context is not None, rule, context=None)
        return self._step(token_ids, cache, start, padding_mask, first, context)

    def _step(self, token_ids, cache, start, padding_mask, first, context):
        return step(self.decoder, token_ids, cache, start, padding_mask, first, context)


def _moved(inputs, start_token):
    """Returns the decoder's inputs for a single text: the text moved to the right by a token."""
    ids = inputs["token_ids"]
    return {**inputs, "token_ids": ops.concatenate([ops.full_like(ids[:, :1], start_token), ids[:, :-1]], axis=1)}
