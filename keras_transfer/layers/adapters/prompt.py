"""Learned vectors before those of the text, which pass through all blocks."""

import keras
from keras import ops

from keras_transfer.layers.adapters.slots import Adapter, AdapterSlot


class PromptSlot(AdapterSlot):
    """A prompt around a block: the first block puts it before the text, and the last one removes it.

    Args:
        first, last: Booleans. Whether the block is the first one, and the last one, of the encoder.
        parent, attribute, place: See `AdapterSlot`.

    Call arguments:
        inputs: Tensor of shape `[batch, length, dim]`.
        bias: Tensor of shape `[batch, 1, 1, length]`.

    Returns:
        A tuple of the two arguments with room for the prompt.
    """

    def __init__(self, first, last, parent, attribute, place):
        super().__init__(parent, attribute, place)
        self.first = first
        self.last = last

    def call(self, inputs, bias):
        for name in self.active:
            inputs, bias = self.adapters[name](inputs, bias)
        return inputs, bias

    def trimmed(self, outputs):
        """Returns the outputs of the block without the prompt, if it is the last block."""
        length = sum(self.adapters[name].length for name in self.active)
        return outputs[:, length:] if self.last and length else outputs


class PromptAdapter(Adapter):
    """Puts `length` learned vectors before those of the text (Lester et al. 2021).

    Args:
        length: Integer. Number of vectors.
        first: Boolean. Whether to add the vectors. Otherwise an earlier block has added them, and only the bias is
            extended.
    """

    def __init__(self, length, first, **kwargs):
        super().__init__(**kwargs)
        self.length = length
        self.first = first

    def build(self, inputs_shape):
        if self.first:
            normal = keras.initializers.RandomNormal(stddev=0.02)
            self.vectors = self.add_weight(name="vectors", shape=(self.length, inputs_shape[-1]), initializer=normal)

    def call(self, inputs, bias):
        bias = ops.pad(bias, ((0, 0), (0, 0), (0, 0), (self.length, 0)))  # Every query sees the prompt.
        if not self.first:
            return inputs, bias
        vectors = ops.tile(ops.cast(self.vectors, inputs.dtype)[None], (ops.shape(inputs)[0], 1, 1))
        return ops.concatenate([vectors, inputs], axis=1), bias
