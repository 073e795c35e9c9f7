"""Adapters around attention: prefixes, prompts and projected attention layers."""

import keras

from keras_transfer.adaptation.adapters.kinds import AdapterKind, positive, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, prefix_slot, prompt_slots, put, put_in_blocks
from keras_transfer.layers.adapters import PrefixAdapter, ProjectedAttention, Projections, PromptAdapter
from keras_transfer.layers.attention import RelativePositionBias


@register_kind
class Prefix(AdapterKind):
    """Learned keys and values that precede those of the text in every block (Li & Liang 2021).

    Unlike most other kinds, a prefix changes the outputs of the encoder even before it is trained.

    Args:
        length: Integer. Number of keys and values. Defaults to `20`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Prefix(length=5))
    ```
    """

    length: int = 20

    def __post_init__(self):
        self.check(length=positive(self.length))

    def attach(self, encoder, name):
        if any(isinstance(layer, RelativePositionBias) for layer in keras.tree.flatten(encoder.block_inputs)):
            raise ValueError(
                f"`Prefix` needs an encoder without relative position biases. Received: {type(encoder).__name__}"
            )
        for block in blocks_of(encoder):
            attention, options = block.attention, {"dtype": block.dtype_policy, "name": name}
            slot = prefix_slot(block)
            layer = PrefixAdapter(self.length, attention.num_key_value_heads, attention.head_dim, **options)
            put(encoder, slot, name, layer)


@register_kind
class Prompt(AdapterKind):
    """Learned vectors that precede those of the text, after the embeddings (Lester et al. 2021).

    They are removed from the outputs but not from the hidden states, so a task with `scalar_mix` cannot use them. A
    prompt changes the outputs of the encoder even before it is trained. Causal encoders need `Prefix` instead.

    Args:
        length: Integer. Number of vectors. Defaults to `20`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Prompt(length=5))
    ```
    """

    length: int = 20

    def __post_init__(self):
        self.check(length=positive(self.length))

    def attach(self, encoder, name):
        for slot in prompt_slots(encoder):
            put(encoder, slot, name, PromptAdapter(self.length, slot.first, dtype=slot.dtype_policy, name=name))


@register_kind
class PALs(AdapterKind):
    """A small attention layer beside each block (projected attention layers, Stickland & Murray 2019).

    Args:
        size: Integer. Width of the attention. Defaults to `204`.
        num_heads: Integer, a divisor of `size`. Number of heads. Defaults to `12`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.PALs(size=12, num_heads=2))
    ```
    """

    size: int = 204
    num_heads: int = 12

    def __post_init__(self):
        self.check(size=positive(self.size), num_heads=positive(self.num_heads))
        self.check(num_heads=(self.size % self.num_heads == 0, "a divisor of `size`"))

    def attach(self, encoder, name):
        blocks = blocks_of(encoder)
        if causal := [block.name for block in blocks if block.attention.causal]:
            raise ValueError(f"`PALs` have no cache, which causal blocks need. Received: causal blocks {causal}")
        projections = Projections(self.size, name="projections", dtype=blocks[0].dtype_policy)
        put_in_blocks(encoder, ["block"], name, ProjectedAttention, self.num_heads, projections)
