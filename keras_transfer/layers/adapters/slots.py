"""Slots: the places of an encoder where named adapters act, if they are active."""

import math
import weakref

import keras
import numpy as np
from keras import ops


class Adapter(keras.layers.Layer):
    """Base class of the layers that change the outputs of a part of a frozen encoder. `build` creates their weights.

    Call arguments:
        outputs: Tensor. Outputs of the part.
        inputs: Tensor. Inputs of the part.
        summed: Tensor. Sum of the residual and the outputs, normalized in a post-norm block. Only for adapters with
            `uses_sum = True`.

    Returns:
        A tensor of the shape of `outputs`.
    """

    uses_sum = False
    scales_inputs = False

    def before(self, inputs):
        """Returns the inputs that the part receives."""
        return inputs

    def merged(self, kernel, bias):
        """Returns the kernel and bias of a dense layer that is equivalent to one with these and this adapter."""
        raise NotImplementedError

    def starts(self):
        """Returns `(weight, array)` for each weight that changes nothing at another value than 0: that value."""
        return []


class AdapterSlot(keras.layers.Layer):
    """A place where adapters act: the output of a sub-layer of a `TransformerBlock`, before the residual.

    Args:
        parent: Layer that holds the slot.
        attribute: String. Name of the parent's attribute that holds the slot.
        place: String. Name of the place, unique in the encoder, such as `"block_0.feed_forward"`.

    Attributes:
        adapters: Dict from names to `Adapter`s.
        active: Tuple of names. These adapters are applied in this order.
    """

    def __init__(self, parent, attribute, place, **kwargs):
        super().__init__(dtype=parent.dtype_policy, name="adapters", **kwargs)
        self.parent = weakref.ref(parent)  # Keras would track the layer itself.
        self.attribute = attribute
        self.place = place
        self.adapters = {}
        self.active = ()
        self.built = True  # It has no weights of its own.

    @property
    def uses_sum(self):
        """Boolean. Whether an active adapter reads the sum of the residual and the outputs."""
        return any(self.adapters[name].uses_sum for name in self.active)

    def activate(self, names):
        """Applies the adapters with these names, in this order, and no others."""
        self.active = tuple(name for name in names if name in self.adapters)

    def detach(self):
        """Removes the slot from its parent."""
        self.activate(())
        self.parent().adapters.pop(self.attribute)

    def call(self, outputs, inputs=None, summed=None, training=None, **kwargs):
        for name in self.active:
            outputs = self.adapters[name](outputs, inputs, summed, training=training, **kwargs)
        return outputs


class AdaptedLayer(AdapterSlot):
    """A layer with adapters at its output, which replaces the original layer.

    Args:
        base: The layer.
        parent, attribute, place: See `AdapterSlot`.
    """

    def __init__(self, base, parent, attribute, place):
        super().__init__(parent, attribute, place)
        self.base = base
        self.supports_masking = True

    def call(self, inputs, training=None):
        return super().call(self.base(inputs), inputs, training=training)

    def compute_output_shape(self, inputs_shape):
        return self.base.compute_output_shape(inputs_shape)

    def detach(self):
        self.activate(())
        setattr(self.parent(), self.attribute, self.base)


class AdaptedDense(AdaptedLayer):
    """A dense layer with adapters, which replaces the original dense layer.

    The adapters act before the activation of the layer. They treat an `EinsumDense` with several axes, such as the
    heads of attention, as a dense layer with one axis.

    Args:
        base: `Dense`, or `EinsumDense` for which `dense_axes` is not None.
        parent, attribute, place: See `AdapterSlot`.
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
        changed = AdapterSlot.call(self, _joined(outputs, self.made), x, training=training)
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
    if layer.quantization_mode is not None or layer.lora_enabled:
        raise ValueError(
            "A dense layer that is quantized or has Keras's own LoRA cannot be adapted. "
            f"Received: {layer.path!r} with dtype={layer.dtype_policy.name!r}, lora_enabled={layer.lora_enabled}"
        )


def dense_axes(layer):
    """Returns the axes of a kernel that a dense layer sums over, and those that become axes of its outputs.

    Returns:
        Two lists of integers, in the order of the last axes of the inputs and of the outputs, or None if the layer is
        not a product of its inputs with a matrix.
    """
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


class WeightSlot(AdapterSlot):
    """Holds copies of some weights of a layer, which train in place of the originals.

    The layer computes with the copies of the active adapter. The originals do not change.

    Args:
        parent, attribute, place: See `AdapterSlot`.
    """

    def __init__(self, parent, attribute, place):
        super().__init__(parent, attribute, place)
        originals = {}
        self.originals = lambda: originals  # Hidden from Keras, since the parent tracks these weights.

    def cover(self, attributes):
        """Adds weights of the layer to those that can have copies."""
        for attribute in attributes:
            self.originals().setdefault(attribute, getattr(self.parent(), attribute))

    def activate(self, names):
        super().activate(names)
        for attribute, variable in self.originals().items():
            for name in self.active:
                variable = getattr(self.adapters[name], attribute, variable)
            object.__setattr__(self.parent(), attribute, variable)

    def save_own_variables(self, store):
        """Writes the originals: `Dense` writes the bias that it computes with, which may be a copy."""
        for attribute, variable in self.originals().items():
            store[attribute] = variable

    def load_own_variables(self, store):
        for attribute, variable in self.originals().items():
            variable.assign(store[attribute])

    def detach(self):
        self.activate(())
        delattr(self.parent(), self.attribute)  # TensorFlow would still track it.
        setattr(self.parent(), self.attribute, None)


class WeightCopies(Adapter):
    """Copies of weights for a `WeightSlot`.

    Args:
        originals: Dict from attributes to variables.
    """

    def __init__(self, originals, **kwargs):
        super().__init__(**kwargs)
        self.originals = lambda: originals  # Hidden from Keras.

    def build(self, _=None):
        for name, variable in self.originals().items():
            copy = self.add_weight(name=name, shape=variable.shape, dtype=variable.dtype, initializer="zeros")
            copy.assign(np.array(ops.convert_to_numpy(variable)))  # On JAX, it would share the original's memory.
            setattr(self, name, copy)

    def starts(self):
        return [(getattr(self, name), _array(variable)) for name, variable in self.originals().items()]


def _array(variable):
    return np.array(ops.convert_to_numpy(ops.cast(variable, "float32")))


class PrefixSlot(AdapterSlot):
    """Adds keys and values in front of those of the tokens, in the attention layer that is its parent.

    Call arguments:
        key, value: Tensors of shape `[batch, heads, keys, head_dim]`.
        bias: Tensor of shape `[batch, 1 or heads, 1 or length, keys]`, or None.

    Returns:
        A tuple of the three arguments with a prefix.
    """

    def call(self, key, value, bias=None):
        for name in self.active:
            key, value, bias = self.adapters[name](key, value, bias)
        return key, value, bias

    def detach(self):
        self.activate(())
        delattr(self.parent(), self.attribute)  # TensorFlow would still track it.
        setattr(self.parent(), self.attribute, None)
