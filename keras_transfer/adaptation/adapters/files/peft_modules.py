"""The columns of an encoder's dense layers that Transformers modules contain."""

import collections
import dataclasses

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.base import block_names, blocks_of, dense_targets
from keras_transfer.checkpoints.sources import tensor_names
from keras_transfer.encoders.base import TransformerStack
from keras_transfer.encoders.sequence_to_sequence import EncoderDecoder

# Two matrices of LoRA, and the column of the module at which the second begins.
Piece = collections.namedtuple("Piece", ("key", "a", "b", "offset"))


@dataclasses.dataclass
class Segment:
    """Adjacent columns of a dense layer that a Transformers module contains.

    Attributes:
        place: String. Prefix of the paths of its targets: the name of the block, and of cross-attention.
        layer: String. Place of the dense layer, the prefix of the names of its adapter weights.
        dense: The dense layer.
        parts: Dict from the names of all targets in the layer to `(start, size)`.
        start: Integer. First column in the layer.
        size: Integer. Number of columns.
        offset: Integer. First of these columns in the module.
    """

    place: str
    layer: str
    dense: object
    parts: dict
    start: int
    size: int
    offset: int

    @property
    def target(self):
        """String. Name of the target that has exactly these columns."""
        return next(name for name, part in self.parts.items() if part == (self.start, self.size))

    @property
    def path(self):
        """String. The path of this target in the form that `LoRA` and `IA3` expect."""
        return f"{self.place}.{self.target}"

    @property
    def is_whole(self):
        """Boolean. Whether the segment has all columns of the layer."""
        return self.size == self.dense.kernel.shape[-1]

    def pieces(self, arrays):
        """Returns a `Piece` for each part of an adapter, given its arrays, that acts on columns of the segment."""
        found = []
        for name, low, high, first in self.shared(arrays, "_a"):
            key = f"{self.layer}/{name}"
            b = arrays[f"{key}_b"][:, low - first : high - first]
            found.append(Piece(key, arrays[f"{key}_a"], b, self.offset + low - self.start))
        return found

    def lengths(self, arrays):
        """Returns the learned column lengths of DoRA, or the lengths of the layer's columns where DoRA does not act."""
        kernel = np.asarray(ops.convert_to_numpy(self.dense.kernel), "float32")
        lengths = np.linalg.norm(kernel, axis=0)[self.start : self.start + self.size]
        for name, low, high, first in self.shared(arrays, "_magnitude"):
            own = arrays[f"{self.layer}/{name}_magnitude"]
            lengths[low - self.start : high - self.start] = own[low - first : high - first]
        return lengths

    def shared(self, arrays, suffix=""):
        """Yields `(target, first column, last column, start of the target)` for targets with arrays."""
        for name, (first, size) in self.parts.items():
            low, high = max(first, self.start), min(first + size, self.start + self.size)
            if low < high and f"{self.layer}/{name}{suffix}" in arrays:
                yield name, low, high, first


def modules_of(encoder):
    """Returns a dict from Transformers modules, without their prefix in a model with a head, to lists of `Segment`s."""
    if not isinstance(encoder, (TransformerStack, EncoderDecoder)):
        raise ValueError(f"PEFT folders require an encoder of this library. Received: {type(encoder).__name__}")
    names, found, block_name = tensor_names(encoder), {}, block_names(encoder)
    for block in blocks_of(encoder):
        layers = {}
        for target, (parent, attribute, part) in dense_targets(block).items():
            around, _, target = f"{block_name[id(block)]}.{target}".rpartition(".")
            layer = f"{block.name}.{parent.name}.{attribute}"
            layers.setdefault(layer, (around, getattr(parent, attribute), {}))[2][target] = part
        for layer, (around, dense, parts) in layers.items():
            tensors = names[id(dense.kernel)]
            size = dense.kernel.shape[-1] // len(tensors)
            for i, name in enumerate(tensors):
                if not name.endswith(".weight"):
                    continue  # PEFT cannot target a single parameter, such as this one in XLNet.
                segments = found.setdefault(name.removesuffix(".weight"), [])
                offset = sum(segment.size for segment in segments)
                segments.append(Segment(around, layer, dense, parts, i * size, size, offset))
    return found
