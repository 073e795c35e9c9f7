"""IA3: learned scales of the outputs and inputs of dense layers."""

import dataclasses
import weakref

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind, strings
from keras_transfer.adaptation.adapters.places import choose_targets, put
from keras_transfer.core.expect import expect
from keras_transfer.layers import AdaptedDense, Adapter, stand_in


@register_kind(ia3={})
class IA3(AdapterKind):
    """Learned scales of keys, values and the inner activations of the feed-forward network (Liu et al. 2022).

    Args:
        targets: List of dense layers whose outputs are scaled, as for `LoRA`. Defaults to `("key", "value")`.
        input_targets: List of dense layers whose inputs are scaled, as for `LoRA`. Defaults to `("outer",)`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.IA3())
    ```
    """

    for_backbones = True
    merges = True
    targets: tuple = ("key", "value")
    _: dataclasses.KW_ONLY
    input_targets: tuple = ("outer",)

    def __post_init__(self):
        for field in ("targets", "input_targets"):
            object.__setattr__(self, field, strings(getattr(self, field)))
        given = {"targets": self.targets, "input_targets": self.input_targets}
        expect(any(given.values()), "`targets` or `input_targets` must be names.", **given)

    def attach(self, encoder, name):
        found = [(*target[:3], target[3]) for target in choose_targets(encoder, self.targets)]
        found += [(*target[:3], None) for target in choose_targets(encoder, self.input_targets)]
        for parent, attribute, place, parts in found:
            slot = stand_in(AdaptedDense, parent, attribute, place)
            put(encoder, slot, name, ScalingAdapter(slot, parts, dtype=parent.dtype_policy, name=name))


class ScalingAdapter(Adapter):
    """Multiplies the outputs, or the inputs, of a dense layer by learned factors (IA3, Liu et al. 2022).

    Args:
        parts: Dict from names to slices `(start, size)` of the outputs, or `None` to scale the inputs.
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
