"""LoRA: low-rank changes to dense layers, and DoRA."""

import dataclasses
import math
import weakref
from typing import Any

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.kind import NAMES, AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import choose_targets, put
from keras_transfer.core.expect import FLAG, RATE, expects, integer, number
from keras_transfer.layers import AdaptedDense, Adapter, Dropout, dense_axes, stand_in, uniform


@expects(rank=integer(1), alpha=number(), targets=NAMES, dropout=RATE, rank_stabilized=FLAG, magnitude=FLAG)
@register_kind(lora={}, rslora={"rank_stabilized": True}, dora={"magnitude": True})
class LoRA(AdapterKind):
    """Low-rank changes to dense layers (Hu et al. 2022), or DoRA (Liu et al. 2024).

    Args:
        rank: Integer. Rank of the changes. Defaults to `8`.
        alpha: Float. The change is multiplied by `alpha / rank`. Defaults to `None`, twice the rank.
        targets: List of names of dense layers (`"query"`, `"key"`, `"value"`, `"output"`, `"inner"`, `"outer"`,
            `"gate"`), or regular expressions that match whole paths (`"block_[01].query"`). In an encoder-decoder,
            these names include cross-attention, `"cross_attention.query"` selects only that, and whole paths begin with
            `"encoder_"` or `"decoder_"` (`"decoder_.*value"`). Defaults to `("query", "value")`.
        dropout: Float between 0 and 1. Dropout rate of the inputs. Defaults to `0.0`.
        rank_stabilized: Boolean. Whether the factor is `alpha / sqrt(rank)` (rsLoRA, Kalajdzievski 2023). Defaults to
            `False`.
        magnitude: Boolean. Whether the length of each kernel column is a separate weight (DoRA). Defaults to `False`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.LoRA(rank=4, targets=["query", "inner"]))
    ```
    """

    for_backbones = True
    merges = True
    rank: int = 8
    _: dataclasses.KW_ONLY
    alpha: float | None = None
    targets: tuple = ("query", "value")
    dropout: float = 0.0
    rank_stabilized: bool = False
    magnitude: bool = False

    @property
    def scale(self) -> float:
        """Float. The factor by which the low-rank change is multiplied."""
        alpha = 2 * self.rank if self.alpha is None else self.alpha
        return alpha / (self.rank**0.5 if self.rank_stabilized else self.rank)

    def count_weights(self, encoder: Any) -> int:
        """Returns how many weights `add_adapters` would add to an encoder, without adding them.

        Args:
            encoder: Encoder with blocks.

        Returns:
            Integer.

        Raises:
            ValueError: If a target matches no dense layer of the encoder.

        Example:
        ```python
        encoder = keras_transfer.encoders.Encoder.from_pretrained("minilm-l6")
        keras_transfer.adaptation.LoRA(rank=8).count_weights(encoder)  # 73728
        ```
        """
        count = 0
        for parent, attribute, _, parts in choose_targets(encoder, self.targets):
            layer = getattr(parent, attribute)
            layer = getattr(layer, "base", layer)  # It may have other adapters.
            rows = math.prod(layer.kernel.shape[axis] for axis in dense_axes(layer)[0])
            count += sum(self.rank * (rows + size) + self.magnitude * size for _, size in parts.values())
        return count

    def attach(self, encoder, name):
        for parent, attribute, place, parts in choose_targets(encoder, self.targets):
            slot = stand_in(AdaptedDense, parent, attribute, place)
            options = {"dtype": parent.dtype_policy, "name": name}
            layer = LowRankAdapter(slot, parts, self.rank, self.scale, self.dropout, self.magnitude, **options)
            put(encoder, slot, name, layer)


class LowRankAdapter(Adapter):
    """Adds `scale * x A B` to the outputs of a dense layer (LoRA, Hu et al. 2022). `B` starts as zero.

    With `magnitude=True` (DoRA, Liu et al. 2024), each column of the changed kernel is scaled to a learned length.

    Args:
        parts: Dict from names to slices `(start, size)` of the outputs. Each has separate factors `A` and `B`.
        scale: Float. Factor of each change.
        magnitude: Boolean. Whether the column lengths are learned. Defaults to `False`.
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
        """Returns the `A` factors of all parts concatenated, and the `B` factors as one block matrix."""
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
