"""Files of adapters: those of this library, and folders of PEFT."""

from keras_transfer.adaptation.adapters.files.adapter_files import load_adapters, save_adapters

__all__ = ["load_adapters", "save_adapters"]
