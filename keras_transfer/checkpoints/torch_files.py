"""Pickles: the tensors of torch's, and lists of strings, without the objects that a pickle may create."""

import pickle

from keras_transfer.checkpoints.tensors import CheckpointError, reading


def read_torch(file, advice):
    """Returns what a file that torch has pickled contains, if that is tensors in plain containers."""
    try:
        import torch
    except ImportError as error:
        raise CheckpointError(
            f"Reading a torch pickle requires torch. Run `pip install torch`, or {advice}. Received: {file}"
        ) from error
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for a broken or a malicious pickle
        raise CheckpointError(f"`torch.load(weights_only=True)` cannot read {file}. Received: {error}") from error


class _Plain(pickle.Unpickler):
    """Reads containers, strings and numbers, and refuses everything else before it is created."""

    def find_class(self, module, name):
        raise CheckpointError(f"A pickle must contain plain lists and strings only. Received: {module}.{name}")


def read_strings(file):
    """Returns the list of strings in a pickle."""
    with open(file, "rb") as stream, reading(file):
        found = _Plain(stream).load()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise CheckpointError(f"{file} must contain a list of strings. Received: {found!r:.100}")
    return found
