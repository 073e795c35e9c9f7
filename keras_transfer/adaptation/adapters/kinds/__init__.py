"""The kinds of adapters. Each file has one kind or a family: its sizes, its places, and its layers."""

from keras_transfer.adaptation.adapters.kinds.ia3 import IA3
from keras_transfer.adaptation.adapters.kinds.lora import LoRA

__all__ = [
    "IA3",
    "LoRA",
]
