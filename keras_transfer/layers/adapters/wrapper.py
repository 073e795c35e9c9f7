"""The wrapper that stands in for a layer and applies named adapters there, if they are active."""

import functools
import math
import weakref
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.keras_internals import layer_tracking


def adapter_policy(dtype):
    """Returns a dtype policy that keeps weights in float32, because half precision would round small updates away."""
    policy = keras.dtype_policies.get(dtype)
    is_half = policy.variable_dtype in ("bfloat16", "float16")
    return keras.dtype_policies.get(f"mixed_{policy.compute_dtype}") if is_half else policy


class Adapter(keras.layers.Layer):
    """Base class of layers that change the outputs of a layer of a frozen encoder. `build` creates their weights.

    Weights of adapters are in float32, also over an encoder whose weights are in half precision.

    Call arguments:
        - `outputs`: Tensor. Outputs of that layer.
        - `inputs`: Tensor. Inputs of that layer.
        - `summed`: Tensor. Sum of the residual and the outputs, normalized in a post-norm block. Only for adapters with
          `uses_sum = True`.
    """

    uses_sum = False
    scales_inputs = False

    def __init__(self, *, dtype=None, **kwargs):
        super().__init__(dtype=adapter_policy(dtype), **kwargs)

    def before(self, inputs: Any) -> Any:
        """Changes the inputs of the adapted layer.

        Args:
            inputs: Tensor of shape `[batch, length, dim]`. Inputs of the adapted layer.

        Returns:
            The tensor that the adapted layer receives. By default, `inputs`.
        """
        return inputs

    def merged(self, kernel: Any, bias: Any) -> Any:
        """Folds the adapter into the weights of the dense layer that it adapts.

        Args:
            kernel: Tensor of shape `[input_dim, output_dim]`. Kernel of the dense layer.
            bias: Tensor of shape `[output_dim]`, or `None`. Bias of the dense layer.

        Returns:
            A tuple of the kernel and the bias of a dense layer that is equivalent to the adapted one.
        """
        raise NotImplementedError

    def starts(self) -> list:
        """Returns the values at which the adapter changes nothing, for weights that do not start at zero.

        Returns:
            A list of `(weight, array)`.
        """
        return []


class Adapted(keras.layers.Layer):
    """Stands in for a layer, as the attribute of the layer that holds it, and changes its outputs by adapters.

    Subclasses stand in for layers that adapters change elsewhere than at their outputs.

    Args:
        place: String. Name of the place, unique in the encoder, such as `"block_0.feed_forward"`.

    Attributes:
        active: Tuple of names. These adapters are applied in this order.
        encoder: Function that returns the encoder of a KerasHub backbone with adapters. `None` in other encoders.
    """

    encoder = None

    def __init__(self, base, parent, attribute, place):
        super().__init__(dtype=parent.dtype_policy, name="adapters")
        self.base = base
        self.parent = weakref.ref(parent)  # Keras would track the layer itself.
        self.attribute = attribute
        self.place = place
        self.adapters = {}
        self.active = ()
        self.supports_masking = True
        self.built = True  # It has no weights of its own.

    def activate(self, names):
        """Applies the adapters with these names, in this order, and no others."""
        self.active = tuple(name for name in names if name in self.adapters)

    def detach(self):
        """Gives the layer its place back."""
        self.activate(())
        if self.base is None:
            delattr(self.parent(), self.attribute)  # TensorFlow would still track it.
        setattr(self.parent(), self.attribute, self.base)

    def call(self, inputs, training=None):
        return self.apply(inputs if self.base is None else self.base(inputs), inputs, training=training)

    def apply(self, outputs, inputs, summed=None, training=None):
        """Returns the outputs of the layer as the active adapters change them."""
        for name in self.active:
            outputs = self.adapters[name](outputs, inputs, summed, training=training)
        return outputs

    def compute_output_shape(self, inputs_shape):
        return self.base.compute_output_shape(inputs_shape)


def stand_in(cls, parent, attribute, place):
    """Returns what stands in for the layer that is an attribute of `parent`, which is an `Adapted` from now on."""
    layer = getattr(parent, attribute, None)
    if not isinstance(layer, Adapted):
        with layer_tracking.unlocked(parent):
            layer = cls(layer, parent, attribute, place)
            setattr(parent, attribute, layer)
    return layer


class AdaptedResidual(Adapted):
    """Stands in for the `Residual` at the end of a sub-layer. Adapters change the outputs that it adds."""

    def call(self, outputs, residual, inputs, norm=None, beside=None, training=None):
        reads_sum = any(self.adapters[name].uses_sum for name in self.active)
        summed = self.base(outputs, residual, inputs, norm=norm) if reads_sum else None
        outputs = ops.cast(self.apply(outputs, inputs, summed, training), self.compute_dtype)
        return self.base(outputs, residual, inputs, norm=norm, beside=beside)


class AdaptedBlock(Adapted):
    """Runs around a `TransformerBlock`, which does not hold it in place of a layer."""

    def around(self, run):
        """Returns a function that wraps another one in the active adapters, of which the first is the outermost."""
        for name in reversed(self.active):
            run = functools.partial(self.adapters[name].around, run)
        return run


class AdaptedDense(Adapted):
    """Stands in for a dense layer, or for an `EinsumDense` that is one (`dense_axes`).

    The adapters act before the activation of the layer. They treat an `EinsumDense` with several axes, such as the
    heads of attention, as a dense layer with one axis.
    """

    def __init__(self, base, parent, attribute, place):
        super().__init__(base, parent, attribute, place)
        summed, made = dense_axes(base)
        self.summed, self.made = len(summed), len(made)
        self.order = (*summed, *made)  # The axes of the kernel of the layer in the order of rows and columns.

    @property
    def bias(self):
        bias = self.base.bias
        return bias if bias is None else _joined(bias, self.made)

    @property
    def kernel(self):
        check_kernel(self.base)
        if self.order == (0, 1):
            return self.base.kernel
        kernel = _joined(ops.transpose(self.base.kernel, self.order), self.made)
        return ops.reshape(kernel, (-1, kernel.shape[-1]))

    def call(self, inputs, training=None):
        if not self.active:
            return self.base(inputs)
        x = _joined(inputs, self.summed)
        for name in self.active:
            x = self.adapters[name].before(x)
        outputs = self._linear(x if self.summed == 1 else ops.reshape(x, ops.shape(inputs)))
        changed = self.apply(_joined(outputs, self.made), x, training=training)
        changed = changed if self.made == 1 else ops.reshape(changed, ops.shape(outputs))
        return changed if _is_linear(self.base) else self.base.activation(changed)

    def _linear(self, inputs):
        """Returns the outputs of the dense layer without its activation."""
        base = self.base
        if _is_linear(base):
            return base(inputs)
        check_kernel(base)
        outputs = ops.matmul(inputs, base.kernel)
        return outputs if base.bias is None else ops.add(outputs, base.bias)

    def merge(self):
        """Changes the weights of the dense layer to what its active adapters compute."""
        base, layers = self.base, [self.adapters[name] for name in self.active]
        kernel, bias = ops.convert_to_tensor(self.kernel), self.bias
        for layer in sorted(layers, key=lambda layer: layer.scales_inputs):  # Others read scaled inputs.
            kernel, bias = layer.merged(kernel, bias)
        kernel = ops.reshape(kernel, [base.kernel.shape[axis] for axis in self.order])
        base.kernel.assign(ops.transpose(kernel, np.argsort(self.order).tolist()))
        if bias is not None:
            base.bias.assign(ops.reshape(bias, base.bias.shape))


def check_kernel(layer):
    """Raises a `ValueError` if the kernel of a dense layer is not the matrix that the layer multiplies by."""
    expect(
        layer.quantization_mode is None and not layer.lora_enabled,
        "A dense layer that is quantized or has Keras's own LoRA cannot be adapted.",
        layer=layer.path,
        dtype=layer.dtype_policy.name,
        lora_enabled=layer.lora_enabled,
    )


def dense_axes(layer):
    """Returns the axes of a kernel that a dense layer sums over, and those of its outputs, or None for other layers."""
    if isinstance(layer, keras.layers.Dense):
        return [0], [1]
    if not isinstance(layer, keras.layers.EinsumDense) or not _is_linear(layer):
        return None
    terms, outputs = layer.equation.split("->")
    inputs, kernel = terms.split(",")
    summed = [axis for axis in inputs if axis in kernel and axis not in outputs]
    made = [axis for axis in outputs if axis in kernel and axis not in inputs]
    kept = inputs[: -len(summed)]
    if not summed or not made or sorted(kernel) != sorted(summed + made):
        return None
    if (inputs, outputs) != ("".join([kept, *summed]), "".join([kept, *made])):
        return None
    summed, made = ([kernel.index(axis) for axis in axes] for axes in (summed, made))
    has_all = layer.bias is None or list(layer.bias.shape) == [layer.kernel.shape[axis] for axis in made]
    return (summed, made) if has_all else None


def _is_linear(layer):
    return layer.activation is keras.activations.linear


def _joined(x, count):
    """Returns a tensor with its last `count` axes joined into one."""
    return x if count == 1 else ops.reshape(x, (*ops.shape(x)[:-count], math.prod(x.shape[-count:])))
