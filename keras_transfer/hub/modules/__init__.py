"""SavedModels as modules: their signatures, and the tensors that they expect."""

from keras_transfer.hub.modules.loading import load
from keras_transfer.hub.modules.module import Module, open_module
from keras_transfer.hub.modules.tensors import as_tensors, describe, placeholders, spec_of, symbolic, with_shape

__all__ = [
    "Module",
    "as_tensors",
    "describe",
    "load",
    "open_module",
    "placeholders",
    "spec_of",
    "symbolic",
    "with_shape",
]
