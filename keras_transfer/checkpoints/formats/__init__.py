"""The formats of checkpoints: Hugging Face, sentence-transformers, Google, KerasHub."""

from keras_transfer.checkpoints.formats import google, huggingface, presets

__all__ = [
    "google",
    "huggingface",
    "presets",
]
