"""Compacter: bottlenecks whose kernels share most of their parameters."""

import dataclasses

import keras
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, put_at_outputs, width_of
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.layers import BottleneckAdapter, adapter_policy


@expects(size=integer(1), terms=integer(1), rank=integer(1))
@register_kind(compacter={})
class Compacter(AdapterKind):
    """Houlsby bottlenecks whose kernels are sums of Kronecker products (Karimi Mahabadi et al. 2021).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `32`.
        terms: Integer. Number of products. It must divide `size` and the width of the encoder. Defaults to `4`.
        rank: Integer. Rank of the factors of a product. Defaults to `1`.
        activation: String. Activation of the bottleneck. Defaults to `"gelu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Compacter(size=16, terms=2))
    ```
    """

    for_backbones = True
    size: int = 32
    _: dataclasses.KW_ONLY
    terms: int = 4
    rank: int = 1
    activation: str = "gelu"

    def attach(self, encoder, name):
        widths = {width_of(encoder, block) for block in blocks_of(encoder)} | {self.size}
        fits = not any(width % self.terms for width in widths)
        expect(fits, "`terms` must be a divisor of both widths.", terms=self.terms, widths=sorted(widths))
        rule = Rule(self.terms, name="rule", dtype=adapter_policy(None))
        arguments = {"units": self.size, "activation": self.activation, "rule": rule, "rank": self.rank}
        put_at_outputs(encoder, ["attention", "cross_attention", "feed_forward"], name, CompacterAdapter, **arguments)


class Rule(keras.layers.Layer):
    """The small matrices that all layers of a Compacter share, `[terms, terms, terms]`."""

    def __init__(self, terms, **kwargs):
        super().__init__(**kwargs)
        self.terms = terms

    def build(self, _=None):
        shape = (self.terms,) * 3
        self.rule = self.add_weight(name="rule", shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.1))


class CompacterAdapter(BottleneckAdapter):
    """A bottleneck whose kernels are sums of Kronecker products (Karimi Mahabadi et al. 2021).

    A kernel `[in, out]` is the sum over `i` of `rule[i] x (left[i] right[i])`, where `left[i]` is `[in / terms, rank]`
    and `right[i]` is `[rank, out / terms]`.

    Args:
        rule: `Rule` that all adapters share.
    """

    def __init__(self, units, *, activation, rule, rank=1, **kwargs):
        super().__init__(units, activation=activation, **kwargs)
        self.rule = rule
        self.rank = rank

    def build(self, outputs_shape, *_):
        if not self.rule.built:
            self.rule.build()
        terms, dim = self.rule.terms, outputs_shape[-1]
        self.factors = []
        for name, rows, columns in (("down", dim, self.units), ("up", self.units, dim)):
            last = "zeros" if name == "up" else keras.initializers.GlorotUniform()
            left = self.add_weight(name=f"{name}_left", shape=(terms, rows // terms, self.rank))
            right = self.add_weight(name=f"{name}_right", shape=(terms, self.rank, columns // terms), initializer=last)
            self.factors.append((left, right))
        self.down_bias = self.add_weight(name="down_bias", shape=(self.units,), initializer="zeros")
        self.up_bias = self.add_weight(name="up_bias", shape=(dim,), initializer="zeros")

    def kernels(self):
        kernels = []
        for left, right in self.factors:
            parts = ops.einsum("nij,nab->iajb", self.rule.rule, ops.matmul(left, right))
            kernels.append(ops.reshape(parts, (parts.shape[0] * parts.shape[1], -1)))
        return kernels
