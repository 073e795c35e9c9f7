"""Prompt tuning: learned vectors in front of the text."""

import keras
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, put
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.encoders import EncoderDecoder
from keras_transfer.layers import AdaptedBlock, Adapter, stand_in


@expects(length=integer(1))
@register_kind(prompt={})
class Prompt(AdapterKind):
    """Learned vectors that precede the vectors of the text, after the embeddings (Lester et al. 2021).

    They are removed from the outputs but not from the hidden states, so a task with `scalar_mix` cannot use them. A
    prompt changes the outputs of the encoder even before it is trained. Causal encoders and encoder-decoders require
    `Prefix` instead.

    Args:
        length: Integer. Number of vectors. Defaults to `20`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Prompt(length=5))
    ```
    """

    lengthens = True
    length: int = 20

    def attach(self, encoder, name):
        rule = (
            "`Prompt` does not support encoder-decoders, whose cross-attention would not see the prompt. Use `Prefix`."
        )
        expect(not isinstance(encoder, EncoderDecoder), rule, encoder=encoder)
        blocks = blocks_of(encoder)
        rule = (
            "`Prompt` requires an encoder whose blocks share neither weights nor relative positions. Use a different "
            "kind, such as 'lora'."
        )
        shares = encoder.block_inputs is not None or len(blocks) < len(encoder.blocks)
        expect(not shares, rule, encoder=type(encoder).__name__)
        sees_all = not any(block.attention.causal or block.attention.window is not None for block in blocks)
        expect(sees_all, "`Prompt` requires blocks that see all tokens. Use `Prefix`.", encoder=type(encoder).__name__)
        for block in blocks:
            ends = (block is blocks[0], block is blocks[-1])
            layer = PromptAdapter(self.length, *ends, dtype=block.dtype_policy, name=name)
            put(encoder, stand_in(AdaptedBlock, block, "prompt", f"{block.name}.prompt"), name, layer)


class PromptAdapter(Adapter):
    """Runs a block on sequences that begin with `length` learned vectors (Lester et al. 2021).

    The first block of the encoder adds the vectors, and the last one removes them.
    """

    def __init__(self, length, first, last, **kwargs):
        super().__init__(**kwargs)
        self.length = length
        self.first = first
        self.last = last

    def build(self, inputs_shape):
        if self.first:
            normal = keras.initializers.RandomNormal(stddev=0.02)
            self.vectors = self.add_weight(name="vectors", shape=(self.length, inputs_shape[-1]), initializer=normal)

    def around(self, run, inputs, attention_bias, first_only, **arguments):
        """Runs a block on longer inputs, whose first output does not belong to the first token."""
        inputs, bias = self(inputs, attention_bias)
        outputs = run(inputs, attention_bias=bias, first_only=False, **arguments)
        outputs = outputs[:, self.length :] if self.last else outputs
        return outputs[:, :1] if first_only else outputs

    def call(self, inputs, bias):
        bias = ops.pad(bias, ((0, 0), (0, 0), (0, 0), (self.length, 0)))  # Every query sees the prompt.
        if not self.first:
            return inputs, bias
        vectors = ops.tile(ops.cast(self.vectors, inputs.dtype)[None], (ops.shape(inputs)[0], 1, 1))
        return ops.concatenate([vectors, inputs], axis=1), bias
