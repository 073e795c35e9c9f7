"""Copies of single weights, which train in place of the originals."""

import numpy as np
from keras import ops

from keras_transfer.layers.adapters.wrapper import Adapted, Adapter, adapter_policy


class WeightSlot(Adapted):
    """Holds copies of some weights of a layer, its parent. The layer computes with the copies of the active adapter.

    This is the one change of a model that no wrapper can make: embedding norms, final norms and poolers are nodes of
    the encoder's functional graph, which calls the layer itself, and whatever stands in for it is never called. Nothing
    public puts another layer into a node, and KerasHub's backbones are made of the layers of Keras. So the attribute of
    the layer names the copy while it is active. The variables do not change. Layers inside blocks could have wrappers
    that call `stateless_call` with the copies, but then there would be two ways to do the same.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        originals = {}
        self.originals = lambda: originals  # Hidden from Keras, since the parent tracks these weights.

    def cover(self, attributes):
        """Adds weights of the layer to those that can have copies, and returns these originals as a dict."""
        for attribute in attributes:
            self.originals().setdefault(attribute, getattr(self.parent(), attribute))
        return {attribute: self.originals()[attribute] for attribute in attributes}

    def activate(self, names):
        super().activate(names)
        for attribute, variable in self.originals().items():
            for name in self.active:
                variable = getattr(self.adapters[name], attribute, variable)
            object.__setattr__(self.parent(), attribute, variable)

    def merge(self):
        """Sets the originals to the copies that the layer computes with."""
        for attribute, variable in self.originals().items():
            variable.assign(getattr(self.parent(), attribute))

    def save_own_variables(self, store):
        """Writes the originals: `Dense` writes the bias that it computes with, which may be a copy."""
        for attribute, variable in self.originals().items():
            store[attribute] = variable

    def load_own_variables(self, store):
        for attribute, variable in self.originals().items():
            variable.assign(store[attribute])


class WeightCopies(Adapter):
    """Copies of weights for a `WeightSlot`, given as a dict from attributes to variables."""

    def __init__(self, originals, **kwargs):
        super().__init__(**kwargs)
        self.originals = lambda: originals  # Hidden from Keras.

    def build(self, _=None):
        for name, variable in self.originals().items():
            dtype = adapter_policy(variable.dtype).variable_dtype
            copy = self.add_weight(name=name.strip("_"), shape=variable.shape, dtype=dtype, initializer="zeros")
            # A copy, which on JAX does not share the memory of the original.
            copy.assign(np.array(ops.convert_to_numpy(variable), dtype))
            setattr(self, name, copy)

    def starts(self):
        return [
            (getattr(self, name), np.array(ops.convert_to_numpy(ops.cast(variable, "float32"))))
            for name, variable in self.originals().items()
        ]
