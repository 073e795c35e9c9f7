"""Adapters of dense layers: low-rank changes of the kernel, and scales of inputs or outputs."""

import weakref

import numpy as np
from keras import ops

from keras_transfer.layers.adapters.bottleneck import uniform
from keras_transfer.layers.adapters.slots import Adapter
from keras_transfer.layers.basic import Dropout


class LowRankAdapter(Adapter):
    """Adds `scale * x A B` to the outputs of a dense layer (LoRA, Hu et al. 2022). `B` starts as zero.

    With `magnitude=True` (DoRA, Liu et al. 2024), each column of the changed kernel is scaled to a learned length.

    Args:
        base: The `AdaptedDense`.
        parts: Dict from names to slices `(start, size)` of the outputs. Each has its own `A` and `B`.
        rank: Integer. Rank of each change.
        scale: Float.
        dropout: Float between 0 and 1. Dropout rate of the inputs. Defaults to `0.0`.
        magnitude: Boolean. Defaults to `False`.
    """

    def __init__(self, base, parts, rank, scale, dropout=0.0, magnitude=False, **kwargs):
        super().__init__(**kwargs)
        self.base = weakref.ref(base)
        self.parts = dict(parts)
        self.rank = rank
        self.scale = scale
        self.magnitude = magnitude
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, _=None):
        rows, self.units = self.base().kernel.shape
        self.factors = []
        for name, (_, size) in self.parts.items():
            a = self.add_weight(name=f"{name}_a", shape=(rows, self.rank), initializer=uniform())
            b = self.add_weight(name=f"{name}_b", shape=(self.rank, size), initializer="zeros")
            self.factors.append((a, b))
        self.magnitudes = []
        if self.magnitude:
            norms = self._norms()
            for name, (start, size) in self.parts.items():
                weight = self.add_weight(name=f"{name}_magnitude", shape=(size,), initializer="ones")
                weight.assign(norms[start : start + size])
                self.magnitudes.append(weight)

    def _norms(self):
        """Returns the lengths of the columns of the kernel without this change."""
        return np.linalg.norm(ops.convert_to_numpy(self.base().kernel), axis=0)

    def starts(self):
        if not self.magnitude:
            return []
        slices, norms = [slice(start, start + size) for start, size in self.parts.values()], self._norms()
        return [(weight, norms[part]) for weight, part in zip(self.magnitudes, slices)]

    def _factors(self):
        """Returns `A` of all parts side by side, and `B` of all parts stacked, each in the columns of its part."""
        placed = [
            ops.pad(ops.convert_to_tensor(b), ((0, 0), (start, self.units - start - size)))
            for (_, b), (start, size) in zip(self.factors, self.parts.values())
        ]
        return ops.concatenate([a for a, _ in self.factors], axis=1), ops.concatenate(placed, axis=0)

    def _gain(self, kernel):
        """Returns the factor of each column of a changed kernel."""
        norms = ops.stop_gradient(ops.sqrt(ops.sum(ops.square(kernel), axis=0)))
        gain = ops.ones((self.units,), norms.dtype)
        for weight, (start, size) in zip(self.magnitudes, self.parts.values()):
            change = ops.cast(weight, norms.dtype) / norms[start : start + size] - 1
            gain = gain + ops.pad(change, ((start, self.units - start - size),))
        return gain

    def call(self, outputs, inputs, summed=None, training=None):
        a, b = (ops.cast(factor, self.compute_dtype) for factor in self._factors())
        x = self.dropout(inputs, training=training)
        outputs = outputs + ops.matmul(ops.matmul(x, a), b) * self.scale
        if not self.magnitude:
            return outputs
        kernel, bias = self.base().kernel, self.base().bias
        gain = ops.cast(self._gain(self._changed(ops.convert_to_tensor(kernel))), outputs.dtype)
        return gain * outputs if bias is None else gain * (outputs - bias) + bias

    def _changed(self, kernel):
        a, b = (ops.cast(factor, kernel.dtype) for factor in self._factors())
        return kernel + ops.matmul(a, b) * self.scale

    def merged(self, kernel, bias):
        changed, base = self._changed(kernel), self.base()
        if not self.magnitude:
            return changed, bias
        gain = self._gain(self._changed(ops.convert_to_tensor(base.kernel)))
        return changed * gain, None if bias is None else gain * (bias - base.bias) + base.bias


class ScalingAdapter(Adapter):
    """Multiplies the outputs, or the inputs, of a dense layer by learned numbers (IA3, Liu et al. 2022).

    Args:
        base: The `AdaptedDense`.
        parts: As for `LowRankAdapter`, or None to scale the inputs.
    """

    def __init__(self, base, parts, **kwargs):
        super().__init__(**kwargs)
        self.base = weakref.ref(base)
        self.parts = None if parts is None else dict(parts)

    def build(self, _=None):
        rows, self.units = self.base().kernel.shape
        if self.parts is None:
            self.scales = [self.add_weight(name="inputs", shape=(rows,), initializer="ones")]
        else:
            self.scales = [
                self.add_weight(name=name, shape=(size,), initializer="ones") for name, (_, size) in self.parts.items()
            ]

    @property
    def scales_inputs(self):
        return self.parts is None

    def starts(self):
        return [(weight, np.ones(weight.shape, "float32")) for weight in self.scales]

    def before(self, inputs):
        return inputs if self.parts is not None else inputs * ops.cast(self.scales[0], inputs.dtype)

    def _gain(self, dtype):
        gain = ops.ones((self.units,), dtype)
        for weight, (start, size) in zip(self.scales, self.parts.values()):
            gain = gain + ops.pad(ops.cast(weight, dtype) - 1, ((start, self.units - start - size),))
        return gain

    def call(self, outputs, inputs=None, summed=None, training=None):
        return outputs if self.parts is None else outputs * self._gain(outputs.dtype)

    def merged(self, kernel, bias):
        if self.parts is None:
            return kernel * ops.cast(self.scales[0], kernel.dtype)[:, None], bias
        gain = self._gain(kernel.dtype)
        return kernel * gain, None if bias is None else bias * gain
