"""Weights that are 0: masks over kernels, by magnitude or by learned scores, which grow in `fit`."""

import weakref
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.adapters import adapted_encoder
from keras_transfer.adaptation.adapters.kind import NAMES, AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import choose_targets, put
from keras_transfer.core.expect import RATE, expect, expects, integer, optional
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.layers import AdaptedDense, Adapter, stand_in
from keras_transfer.training import RunCallback, sync

_ALL = (".*",)


@expects(targets=NAMES)
@register_kind(movement={})
class Movement(AdapterKind):
    """Scores and masks for the weights of dense layers, for movement pruning by `WeightPruning` (Sanh et al. 2020).

    The layers multiply by `W * mask`, and all masks begin as 1. A score S learns as if it were its mask, so that a step
    of gradient descent is `S -= rate * dL/d(W * mask) * W`: it rises if the weight moves away from 0. In the paper, the
    weights train as well, so call `unfreeze` after `add_adapters`. `merge_adapters` makes the kernels `W * mask`.

    Args:
        targets: List of names of dense layers, as for `LoRA`. Defaults to `(".*",)`, all dense layers of the blocks.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Movement())
    keras_transfer.adaptation.unfreeze(model)
    ```

    Source: https://arxiv.org/abs/2005.07683
    """

    for_backbones = True
    merges = True
    targets: tuple = _ALL

    def attach(self, encoder, name):
        for parent, attribute, place, parts in choose_targets(encoder, self.targets):
            slot = stand_in(AdaptedDense, parent, attribute, place)
            put(encoder, slot, name, MaskedKernel(slot, parts, dtype=parent.dtype_policy, name=name))


class MaskedKernel(Adapter):
    """Computes a dense layer with a masked kernel, in place of the outputs of the layer.

    Args:
        parts: Dict from names to slices `(start, size)` of the outputs. Each has scores and a mask.
    """

    def __init__(self, base, parts, **kwargs):
        super().__init__(**kwargs)
        self.base = weakref.ref(base)
        self.parts = dict(parts)

    def build(self, _=None):
        rows, self.units = self.base().kernel.shape
        self.scores, self.masks = [], []
        for name, (_, size) in self.parts.items():
            self.scores.append(self.add_weight(name=f"{name}_scores", shape=(rows, size), initializer="zeros"))
            mask = {"dtype": "bool", "initializer": "ones", "trainable": False}
            self.masks.append(self.add_weight(name=f"{name}_mask", shape=(rows, size), **mask))

    def starts(self):
        return [(mask, np.ones(mask.shape, bool)) for mask in self.masks]

    def call(self, outputs, inputs, summed=None, training=None):
        kernel, bias = self.merged(self.base().kernel, self.base().bias)
        outputs = ops.matmul(inputs, ops.cast(kernel, self.compute_dtype))
        return outputs if bias is None else outputs + ops.cast(bias, self.compute_dtype)

    def merged(self, kernel, bias):
        kernel = change = ops.convert_to_tensor(kernel)
        for scores, mask, (start, size) in zip(self.scores, self.masks, self.parts.values()):
            part, scores = kernel[:, start : start + size], ops.cast(scores, kernel.dtype)
            # It is 0 or minus the weight. The gradient of a score is that of a mask, straight through.
            cut = ops.where(ops.convert_to_tensor(mask), 0, -part)
            cut = cut + ops.stop_gradient(part) * (scores - ops.stop_gradient(scores))
            change = change + ops.pad(cut, ((0, 0), (start, self.units - start - size)))
        return change, bias


@keras.saving.register_keras_serializable(package="keras_transfer")
class WeightPruning(SavedByArguments, RunCallback):
    """Sets more and more weights to 0 in `fit`, by magnitude or by movement, and keeps them there.

    The share of zeros of each target grows by the cubic schedule of Zhu and Gupta (2017), `final_sparsity * (1 - (1 -
    (t - begin) / (end - begin)) ** 3)`, and is set anew every `frequency` steps. By magnitude, the smallest weights are
    cut, of which those that are 0 when `fit` begins are the first, so that `final_sparsity=0.0` only keeps zeros. They
    are exactly 0 after each step, and in files. By movement, weights with the lowest scores of a `Movement` are masked,
    and come back if their scores rise. Zeros alone make no model smaller or faster: `prune` does.

    Args:
        final_sparsity: Float from 0 to below 1. Share of zeros of each target in the end.
        begin_step: Integer. Training step of the run, a batch, at which pruning begins. Defaults to `0`.
        end_step: Integer. Training step at which `final_sparsity` is reached. Defaults to `1`.
        frequency: Integer. Number of steps between changes of the masks. Defaults to `10`.
        targets: List of names of dense layers, as for `LoRA`, to prune by magnitude. Query, key and value are ranked
            separately. Defaults to `None`, the layers with scores or, without any, all dense layers of the blocks.

    Raises:
        ValueError: If `end_step` is not after `begin_step`. In `fit()`, if the run is shorter, or if a target matches
            nothing.

    Example:
    ```python
    keras_transfer.adaptation.WeightPruning(0.7, end_step=200, targets=["inner", "outer"])
    ```

    Source: https://arxiv.org/abs/1710.01878, https://arxiv.org/abs/2005.07683
    """

    @expects(
        final_sparsity=RATE, begin_step=integer(0), end_step=integer(1), frequency=integer(1), targets=optional(NAMES)
    )
    def __init__(
        self, final_sparsity: float, begin_step: int = 0, end_step: int = 1, frequency: int = 10, targets: Any = None
    ) -> None:
        super().__init__()
        expect(
            begin_step < end_step, "`end_step` must be after `begin_step`.", begin_step=begin_step, end_step=end_step
        )
        self.final_sparsity, self.begin_step, self.end_step = final_sparsity, begin_step, end_step
        self.frequency, self.targets = frequency, targets
        self._masks, self._before = None, 0

    def on_train_begin(self, logs=None):
        steps = (self.progress.steps or self.end_step) * self.params.get("epochs", 1)
        rule = "The run must reach `end_step`. Use fewer steps or more epochs."
        expect(self.end_step <= steps, rule, end_step=self.end_step, steps=steps)
        encoder = adapted_encoder(self.model)
        layers = [slot.adapters[name] for slot in encoder.attached.slots for name in slot.active]
        self._scored = [layer for layer in layers if isinstance(layer, MaskedKernel) and self.targets is None]
        found = [] if self._scored else choose_targets(encoder, self.targets or _ALL)
        layers = [getattr(parent, attribute) for parent, attribute, _, _ in found]
        self._kernels = [getattr(layer, "base", layer).kernel for layer in layers]
        self._parts, self._masks = [parts.values() for *_, parts in found], None

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch)
        self._before = self.progress.count
        if self._masks is None:  # Now, a run that was resumed has its weights, whose zeros are the masks.
            self._masks = [ops.convert_to_numpy(kernel) != 0 for kernel in self._kernels]

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch)
        sync(self.model)
        count, first, every = self.progress.count, self.begin_step, self.frequency
        is_due = (count - first) // every > (self._before - first) // every or self._before < self.end_step <= count
        if count > first and is_due:
            self._change_masks()
        self._apply()

    def on_test_begin(self, logs=None):
        self._apply()

    def on_epoch_end(self, epoch, logs=None):
        self._apply()  # Accumulated gradients may have changed the weights at the end of the run.

    def _change_masks(self):
        done = (self.progress.count - self.begin_step) / (self.end_step - self.begin_step)
        sparsity = self.final_sparsity * (1 - (1 - min(done, 1.0)) ** 3)
        for layer in self._scored:
            for scores, mask in zip(layer.scores, layer.masks):
                mask.assign(_highest(ops.convert_to_numpy(scores), sparsity))
        for kernel, parts, mask in zip(self._kernels, self._parts, self._masks):
            values = np.abs(ops.convert_to_numpy(kernel)) * mask
            for start, size in parts if values.ndim == 2 else [(0, values.shape[-1])]:
                part = np.s_[..., start : start + size]
                mask[part] &= _highest(values[part], sparsity)

    def _apply(self):
        sync(self.model)
        for kernel, mask in zip(self._kernels, self._masks):
            kernel.assign(ops.where(mask, ops.convert_to_tensor(kernel), 0))


def _highest(values, sparsity):
    """Returns a mask that is `False` for a share of the values, the lowest."""
    mask, cut = np.ones(values.size, bool), round(sparsity * values.size)
    mask[np.argpartition(values.ravel(), max(cut - 1, 0))[:cut]] = False
    return mask.reshape(values.shape)
