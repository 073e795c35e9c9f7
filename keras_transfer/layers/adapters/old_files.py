"""Where `.keras` files of version 0.1 have the adapters of a `TransformerBlock`: in a dict of the block."""

import keras

from keras_transfer.layers.adapters.wrapper import AdaptedBlock, AdaptedResidual


class AdapterSlot(keras.layers.Layer):
    """Holds the adapters of an `Adapted` a second time. Keras finds weights by the name of this class."""

    def __init__(self, adapted):
        super().__init__()
        self.adapters = adapted.adapters


class PromptSlot(AdapterSlot):
    """The same for a prompt."""


def show_old_places(slots):
    """Makes Keras load and save adapters, in the order of their creation, where files of version 0.1 have them."""
    for slot in slots:
        if isinstance(slot, (AdaptedResidual, AdaptedBlock)):
            shown = vars(slot.parent()).setdefault("adapters", {})
            shown[slot.attribute] = (PromptSlot if slot.attribute == "prompt" else AdapterSlot)(slot)
