"""Prefix tuning: learned keys and values."""

import keras
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, put
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.layers import Adapted, Adapter, MultiHeadAttention, stand_in


@expects(length=integer(1))
@register_kind(prefix={})
class Prefix(AdapterKind):
    """Learned keys and values in front of the keys and values of the text in every block (Li & Liang 2021).

    Decoder blocks also have them in cross-attention. If scores depend on relative positions, a prefix has no such bias.
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

    def attach(self, encoder, name):
        for block in blocks_of(encoder):
            for part in ("attention", "cross_attention"):
                attention, options = getattr(block, part), {"dtype": block.dtype_policy, "name": name}
                if attention is None:
                    continue
                rule = (
                    "`Prefix` requires attention of the class `MultiHeadAttention`. Use a different kind, such as "
                    "'lora'."
                )
                expect(type(attention) is MultiHeadAttention, rule, attention=attention, block=block.name)
                layer = PrefixAdapter(self.length, attention.num_key_value_heads, attention.head_dim, **options)
                put(encoder, stand_in(Adapted, attention, "prefix", f"{block.name}.{part}.prefix"), name, layer)


class PrefixAdapter(Adapter):
    """Adds keys and values of `length` tokens, which every query sees, in front of the text's (Li & Liang 2021).

    The keys start as small random numbers and the values as zero.
    """

    def __init__(self, length, num_heads, head_dim, **kwargs):
        super().__init__(**kwargs)
        self.length = length
        self.num_heads = num_heads
        self.head_dim = head_dim

    def build(self, _=None):
        shape = (self.length, self.num_heads, self.head_dim)
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.keys = self.add_weight(name="keys", shape=shape, initializer=normal)
        self.values = self.add_weight(name="values", shape=shape, initializer="zeros")

    def call(self, outputs, inputs=None, summed=None, training=None):
        key, value, bias, relative_positions = outputs
        batch = ops.shape(key)[0]

        def before(prefix, x):
            prefix = ops.transpose(ops.cast(prefix, x.dtype), (1, 0, 2))[None]
            return ops.concatenate([ops.tile(prefix, (batch, 1, 1, 1)), x], axis=2)

        def padded(x):  # Every query sees the prefix, at distance 0.
            return x if x is None else ops.pad(x, ((0, 0), (0, 0), (0, 0), (self.length, 0)))

        return before(self.keys, key), before(self.values, value), padded(bias), padded(relative_positions)
