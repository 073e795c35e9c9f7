"""Adapters: their kinds, their places in a model, and their files."""

from keras_transfer.adaptation.adapters.base import (
    KINDS,
    adapted_encoder,
    add_adapters,
    check_names,
    get_adapters,
    head_for,
    merge_adapters,
    remove_adapters,
    set_active_adapter,
)
from keras_transfer.adaptation.adapters.files import load_adapters, save_adapters
from keras_transfer.adaptation.adapters.kinds import (
    IA3,
    BitFit,
    Compacter,
    Fusion,
    Houlsby,
    LoRA,
    PALs,
    Parallel,
    Pfeiffer,
    Prefix,
    Prompt,
)

__all__ = [
    "IA3",
    "KINDS",
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
    "adapted_encoder",
    "add_adapters",
    "check_names",
    "get_adapters",
    "head_for",
    "load_adapters",
    "merge_adapters",
    "remove_adapters",
    "save_adapters",
    "set_active_adapter",
]
