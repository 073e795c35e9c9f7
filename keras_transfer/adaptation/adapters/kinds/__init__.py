"""The kinds of adapters. A file has one kind or a family: its sizes, where it goes, and its layers."""

from keras_transfer.adaptation.adapters.kinds.bitfit import BitFit
from keras_transfer.adaptation.adapters.kinds.bottlenecks import Houlsby, Parallel, Pfeiffer
from keras_transfer.adaptation.adapters.kinds.compacter import Compacter
from keras_transfer.adaptation.adapters.kinds.fusion import Fusion
from keras_transfer.adaptation.adapters.kinds.ia3 import IA3
from keras_transfer.adaptation.adapters.kinds.lora import LoRA
from keras_transfer.adaptation.adapters.kinds.pals import PALs
from keras_transfer.adaptation.adapters.kinds.prefix import Prefix
from keras_transfer.adaptation.adapters.kinds.prompt import Prompt

__all__ = [
    "IA3",
    "BitFit",
    "Compacter",
    "Fusion",
    "Houlsby",
    "LoRA",
    "PALs",
    "Parallel",
    "Pfeiffer",
    "Prefix",
    "Prompt",
]
