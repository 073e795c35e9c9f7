"""The kinds of adapters. Each file has one kind or a family: its sizes, its places, and its layers."""

from keras_transfer.adaptation.adapters.kinds.bitfit import LayerCopies, layers_of, own_weights, place_of
from keras_transfer.adaptation.adapters.kinds.ia3 import IA3
from keras_transfer.adaptation.adapters.kinds.lora import LoRA

__all__ = [
    "IA3",
    "LayerCopies",
    "LoRA",
    "layers_of",
    "own_weights",
    "place_of",
]
