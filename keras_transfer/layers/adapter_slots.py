"""Slots: the places of an encoder where named adapters act, of which some are active."""

import weakref

import keras
import numpy as np
from keras import ops


class Adapter(keras.layers.Layer):
    """Base of the layers that change what a part of a frozen encoder returns. It makes its weights in `build`.

    Call arguments:
        outputs: Tensor. What the part returns.
        inputs: Tensor. What the part was called with.
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
        """Returns kernel and bias of a dense layer that does the same as one with these and this adapter."""
        raise NotImplementedError


class AdapterSlot(keras.layers.Layer):
    """A place where adapters act: the output of a sub-layer of a `TransformerBlock`, before the residual.

    Args:
        parent: Layer that holds the slot.
        attribute: String. Where the parent holds it.
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
        """Whether an active adapter reads the sum of the residual and the outputs."""
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


class AdaptedDense(AdapterSlot):
    """A dense layer with adapters, in place of the dense layer.

    Args:
        base: The dense layer.
        parent, attribute, place: See `AdapterSlot`.
    """

    def __init__(self, base, parent, attribute, place):
        super().__init__(parent, attribute, place)
        self.base = base

    @property
    def bias(self):
        return self.base.bias

    @property
    def kernel(self):
        return self.base.kernel

    def call(self, inputs, training=None):
        for name in self.active:
            inputs = self.adapters[name].before(inputs)
        return super().call(self.base(inputs), inputs, training=training)

    def compute_output_shape(self, inputs_shape):
        return self.base.compute_output_shape(inputs_shape)

    def detach(self):
        self.activate(())
        setattr(self.parent(), self.attribute, self.base)

    def merge(self):
        """Changes the weights of the dense layer to what its active adapters compute."""
        base, layers = self.base, [self.adapters[name] for name in self.active]
        kernel, bias = ops.convert_to_tensor(base.kernel), base.bias
        for layer in sorted(layers, key=lambda layer: layer.scales_inputs):  # Others read scaled inputs.
            kernel, bias = layer.merged(kernel, bias)
        base.kernel.assign(kernel)
        if bias is not None:
            base.bias.assign(bias)


class WeightSlot(AdapterSlot):
    """Copies of some weights of a layer, which train in place of the originals.

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


class PrefixSlot(AdapterSlot):
    """Keys and values before those of the tokens, in the attention layer that is its parent.

    Call arguments:
        key, value: Tensors of shape `[batch, heads, keys, head_dim]`.
        bias: Tensor of shape `[batch, 1 or heads, 1 or length, keys]`, or None.

    Returns:
        The three with a prefix.
    """

    def call(self, key, value, bias=None):
        for name in self.active:
            key, value, bias = self.adapters[name](key, value, bias)
        return key, value, bias

    def detach(self):
        self.activate(())
        delattr(self.parent(), self.attribute)  # TensorFlow would still track it.
        setattr(self.parent(), self.attribute, None)
