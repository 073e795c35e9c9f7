"""IA3: learned scales of the outputs and inputs of dense layers, and their form in PEFT folders."""

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
    peft_type = "IA3"
    targets: tuple = ("key", "value")
    _: dataclasses.KW_ONLY
    input_targets: tuple = ("outer",)

    def __post_init__(self):
        for field in ("targets", "input_targets"):
            object.__setattr__(self, field, strings(getattr(self, field)))
        given = {"targets": self.targets, "input_targets": self.input_targets}
        expect(any(given.values()), "`targets` or `input_targets` must be names.", **given)

    def attach(self, encoder, name):
        found = choose_targets(encoder, self.targets)
        found += [(*target[:3], None) for target in choose_targets(encoder, self.input_targets)]
        for parent, attribute, place, parts in found:
            slot = stand_in(AdaptedDense, parent, attribute, place)
            put(encoder, slot, name, ScalingAdapter(slot, parts, dtype=parent.dtype_policy, name=name))

    # === PEFT folders ===

    def to_peft(self, modules, arrays, prefix):
        tensors, of_inputs, used = {}, [], set()
        for name, segments in modules.items():
            module, outputs = f"{prefix}{name}", [piece for segment in segments for piece in segment.pieces(arrays)]
            keys = [f"{segment.layer}/inputs" for segment in segments]
            inputs = [arrays[key] for key in keys if key in arrays]
            if inputs and (outputs or len(inputs) < len(keys) or any((other != inputs[0]).any() for other in inputs)):
                raise ValueError(
                    "PEFT scales either the outputs or the inputs of a module. Use `format='keras_transfer'`. "
                    f"Received: {self} for the module {module!r}"
                )
            if inputs:
                of_inputs.append(module)
                tensors[f"{module}.ia3_l"] = np.array(inputs[0][None])
                used |= set(keys)
            elif outputs:
                values = np.ones(sum(segment.size for segment in segments), "float32")
                for key, columns, own in outputs:
                    values[columns] = arrays[key][own]
                tensors[f"{module}.ia3_l"] = values[:, None]
                used |= {key for key, _, _ in outputs}
        targets = [name.removesuffix(".ia3_l") for name in tensors]
        return tensors, targets, used, {"feedforward_modules": of_inputs, "init_ia3_weights": True}

    @classmethod
    def from_peft(cls, config, modules, folder):
        # The configuration is not used: the shapes of the scales show where they act.
        targets, input_targets, found = set(), set(), {}
        for name, (segments, parts) in modules.items():
            rule = f"{folder} must have one matrix of scales for each module."
            expect(parts.keys() == {"ia3_l"} and parts["ia3_l"].ndim == 2, rule, parts=sorted(parts), name=name)
            values, of_inputs = parts["ia3_l"].ravel(), parts["ia3_l"].shape[0] == 1
            for segment in segments:
                rule = (
                    "The inputs of query, key and value cannot be scaled separately, because they share a dense layer."
                )
                is_whole = segment.size == segment.dense.kernel.shape[-1]
                if of_inputs:
                    expect(is_whole, rule, feedforward_module=name, folder=folder)
                (input_targets if of_inputs else targets).add(segment.path)
                what = "inputs" if of_inputs else segment.target
                found[f"adapter/{segment.layer}/{what}"] = values if of_inputs else values[segment.columns]
        expect(found, "The folder must contain IA3 for at least one module.", folder=folder)
        return cls(sorted(targets), input_targets=sorted(input_targets)), found


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
