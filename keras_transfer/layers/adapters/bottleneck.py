"""Bottleneck adapters: a projection down to a few dimensions, an activation, and a projection up again."""

import weakref

import keras
from keras import ops

from keras_transfer.layers.adapters.slots import Adapter
from keras_transfer.layers.basic import NamedActivation, activate, get_activation, serialize_activation

SOURCES = ("outputs", "inputs", "summed")


def uniform():
    """Returns the initializer of most adapters: uniform within 1 / sqrt(number of inputs) of zero."""
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


@keras.saving.register_keras_serializable(package="keras_transfer")
class BottleneckAdapter(NamedActivation, Adapter):
    """Adds `scale * up(activation(down(x)))` to the outputs of a sub-layer. `up` starts as zero.

    Args:
        units: Integer. Width of the bottleneck.
        activation: String or callable. Defaults to `"gelu"`.
        source: String. What `x` is: `"outputs"` of the sub-layer (Houlsby et al. 2019), `"summed"` with the residual
            (Pfeiffer et al. 2021), or `"inputs"` of the sub-layer (He et al. 2022). Defaults to `"outputs"`.
        scale: Float. Defaults to `1.0`.

    Example:
    ```python
    keras_transfer.layers.BottleneckAdapter(2)(keras.random.normal((1, 3, 8)))
    ```
    """

    def __init__(self, units, activation="gelu", source="outputs", scale=1.0, **kwargs):
        super().__init__(**kwargs)
        if source not in SOURCES:
            raise ValueError(
                f"Invalid value for argument `source`. Expected one of {SOURCES}. Received: source={source!r}"
            )
        get_activation(activation)  # Raises an error if it is unknown.
        self.units = units
        self.activation = activation
        self.source = source
        self.scale = scale

    @property
    def uses_sum(self):
        return self.source == "summed"

    def build(self, outputs_shape, *_):
        dim = outputs_shape[-1]
        self.down = self.add_weight(name="down_kernel", shape=(dim, self.units), initializer=uniform())
        self.down_bias = self.add_weight(name="down_bias", shape=(self.units,), initializer="zeros")
        self.up = self.add_weight(name="up_kernel", shape=(self.units, dim), initializer="zeros")
        self.up_bias = self.add_weight(name="up_bias", shape=(dim,), initializer="zeros")

    def kernels(self):
        """Returns the kernels of the two projections."""
        return ops.convert_to_tensor(self.down), ops.convert_to_tensor(self.up)

    def call(self, outputs, inputs=None, summed=None, training=None):
        return outputs + self.change(outputs, inputs, summed, training)

    def change(self, outputs, inputs=None, summed=None, training=None):
        """Returns what the adapter adds to the outputs."""
        x = {"outputs": outputs, "inputs": inputs, "summed": summed}[self.source]
        rows = ops.reshape(x, (-1, x.shape[-1]))  # On rows, TensorFlow uses plain matmuls.
        down, up = (ops.cast(kernel, self.compute_dtype) for kernel in self.kernels())
        h = activate(ops.matmul(rows, down) + self.down_bias, self.activation, training)
        h = ops.matmul(h, up) + self.up_bias
        h = h if self.scale == 1.0 else h * self.scale
        return ops.reshape(h, ops.shape(outputs))

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "activation": serialize_activation(self.activation),
            "source": self.source,
            "scale": self.scale,
        }


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
        units, activation: See `BottleneckAdapter`.
        rule: `Rule` that all adapters share.
        rank: Integer. Defaults to `1`.
    """

    def __init__(self, units, activation, rule, rank=1, **kwargs):
        super().__init__(units, activation, **kwargs)
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


class FusionAdapter(Adapter):
    """Attends to the changes that several adapters make. The query is the output of the sub-layer,
    or its sum with the residual if an adapter reads that sum.

    Args:
        slot: `AdapterSlot` of the adapters.
        sources: List of names of adapters in the slot.

    Source: https://arxiv.org/abs/2005.00247
    """

    def __init__(self, slot, sources, **kwargs):
        super().__init__(**kwargs)
        self.slot = weakref.ref(slot)
        self.sources = list(sources)

    @property
    def uses_sum(self):
        return any(self.slot().adapters[name].uses_sum for name in self.sources)

    def build(self, outputs_shape, *_):
        dim = outputs_shape[-1]
        normal = keras.initializers.RandomNormal(stddev=0.02)
        for name in ("query", "key"):
            kernel = self.add_weight(name=f"{name}_kernel", shape=(dim, dim), initializer=normal.clone())
            bias = self.add_weight(name=f"{name}_bias", shape=(dim,), initializer="zeros")
            setattr(self, name, (kernel, bias))
        self.value = self.add_weight(name="value_kernel", shape=(dim, dim), initializer="identity")

    def call(self, outputs, inputs=None, summed=None, training=None):
        adapters = [self.slot().adapters[name] for name in self.sources]
        changes = ops.stack([layer.change(outputs, inputs, summed, training) for layer in adapters], axis=-2)
        query = ops.matmul(outputs if summed is None else summed, self.query[0]) + self.query[1]
        key = ops.matmul(changes, self.key[0]) + self.key[1]
        scores = ops.sum(ops.expand_dims(query, -2) * key, axis=-1)
        weights = ops.cast(ops.softmax(ops.cast(scores, "float32")), changes.dtype)
        return outputs + ops.sum(weights[..., None] * ops.matmul(changes, self.value), axis=-2)
