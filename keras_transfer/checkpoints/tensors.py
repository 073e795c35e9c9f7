"""Reads named tensors from files, and assigns all of them to variables, or none."""

import dataclasses
import functools
import logging
import pickle
import typing

import keras
import numpy as np

from keras_transfer.core import expect as forms
from keras_transfer.core import files
from keras_transfer.core.names import closest

log = logging.getLogger("keras_transfer")


class CheckpointError(ValueError):
    """Raised if a checkpoint cannot be read or written, is of another architecture, or does not match the encoder."""


# The rules of checkpoints, in the form of all rules.
expect = functools.partial(forms.expect, error=CheckpointError)
raising = functools.partial(forms.raising, error=CheckpointError)
read_json = functools.partial(files.read_json, error=CheckpointError)


def check_all(title, problems):
    """Raises a `CheckpointError` that lists all problems, if there are any."""
    if problems:
        raise CheckpointError("\n  ".join([title, *problems]))


def first_line(error):
    """Returns the type of an exception and the first line of its message."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def files_in(folder):
    """Returns the names of what a folder contains, for errors."""
    return ", ".join(sorted(path.name for path in folder.iterdir())) or "an empty folder"


def reading(what, *others):
    """Returns a context that turns any error of a damaged file's reader into a `CheckpointError` that names the file.

    Args:
        *others: Types of errors that do not change, because something other than the file causes them.
    """
    # There are a dozen types of JSON, tokenizers, HDF5, safetensors and torch.
    return raising(f"{what} cannot be read.", but=(CheckpointError, *others))


class Layout(typing.NamedTuple):
    """Converts a tensor of a file to the array that a variable holds, and back."""

    to_ours: typing.Callable
    to_theirs: typing.Callable


SAME = Layout(lambda tensor: tensor, lambda array: array)
TRANSPOSED = Layout(np.transpose, np.transpose)


class Within(typing.NamedTuple):
    """The table of an object within another one, such as half of an encoder-decoder, and what its names begin with."""

    tensors: dict
    prefix: str


@dataclasses.dataclass
class Entry:
    """Tensors of a checkpoint, and the variables of an encoder that hold the same numbers.

    Args:
        variables: List of `keras.Variable`. Several variables are stacked along the first axis.
        names: List of names of tensors. Several tensors are side by side, along the last axis of the variable.
        layout: `Layout` of each tensor.
    """

    variables: list
    names: list
    layout: Layout = SAME

    def assign(self, tensors):
        """Sets the variables, from a list of the tensors."""
        for variable, value in zip(self.variables, self.arrays(tensors), strict=True):
            variable.assign(value)

    def arrays(self, tensors):
        """Returns the values of the variables, from a list of the tensors."""
        parts = [self.layout.to_ours(tensor) for tensor in tensors]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return np.split(whole, np.cumsum([variable.shape[0] for variable in self.variables])[:-1])

    def tensors(self, value_of=keras.ops.convert_to_numpy):
        """Returns a dict of the tensors, from the variables, or from what a function returns for each variable."""
        values = [to_float32(value_of(variable)) for variable in self.variables]
        return self._split(values[0] if len(values) == 1 else np.concatenate(values))

    def shapes(self):
        """Returns a dict of the shapes that the tensors must have."""
        rows = sum(variable.shape[0] for variable in self.variables)
        empty = np.broadcast_to(np.float32(0), (rows, *self.variables[0].shape[1:]))
        return {name: tensor.shape for name, tensor in self._split(empty).items()}

    def _split(self, whole):
        parts = np.split(whole, len(self.names), axis=-1)
        return {name: self.layout.to_theirs(part) for name, part in zip(self.names, parts, strict=True)}


def tensors_of(entries):
    """Returns a dict of all tensors of entries."""
    return {name: tensor for entry in entries for name, tensor in entry.tensors().items()}


def read_safetensors(files):
    """Returns a dict from the name of each tensor to a function that reads it, for one file or all shards."""
    import ml_dtypes  # noqa: F401 (safetensors needs it for bfloat16, and Keras on torch does not import it)
    from safetensors import SafetensorError, safe_open

    readers = {}
    for file in files:
        size = f"{file.stat().st_size:,} bytes" if file.exists() else "no such file"
        rule = f"{file} ({size}) is truncated or not a safetensors file. Download it again."
        with raising(rule, SafetensorError, OSError, ValueError):
            handle = safe_open(file, framework="numpy")
            for name in handle.keys():  # noqa: SIM118 (not a dict)
                readers[name] = lambda handle=handle, name=name: handle.get_tensor(name)
    return readers


def shard_files(index):
    """Returns the shards that a `*.index.json` names."""
    with reading(index):
        files = sorted({index.parent / name for name in read_json(index)["weight_map"].values()})
    missing = [file.name for file in files if not file.exists()]
    expect(files and not missing, f"{index} must name shards that exist.", received=", ".join(missing) or "no shards")
    return files


def read_torch(file, advice):
    """Returns what a file that torch has pickled contains, if that is tensors in plain containers."""
    with raising(f"Reading the torch pickle {file} requires torch. Run `pip install torch`, or {advice}.", ImportError):
        import torch
    with raising(f"`torch.load(weights_only=True)` cannot read {file}."):  # for a broken or a malicious pickle
        return torch.load(file, map_location="cpu", weights_only=True)


class _Plain(pickle.Unpickler):
    """Reads containers, strings and numbers, and refuses everything else before it is created."""

    def find_class(self, module, name):
        raise CheckpointError(f"A pickle must contain plain lists and strings only. Received: {module}.{name}")


def read_strings(file):
    """Returns the list of strings in a pickle."""
    with open(file, "rb") as stream, reading(file):
        found = _Plain(stream).load()
    is_right = isinstance(found, list) and all(isinstance(each, str) for each in found)
    expect(is_right, f"{file} must contain a list of strings.", found)
    return found


def fill(entries, readers, source):
    """Assigns every tensor to its variable. If there are problems, assigns none, and one error lists them."""
    shapes = {name: shape for entry in entries for name, shape in entry.shapes().items()}
    tensors = {name: readers[name]() for name in shapes if name in readers}
    unexpected = sorted(set(readers) - set(shapes))
    problems = []
    for name, shape in shapes.items():
        if name not in tensors:
            near = closest(name, unexpected)
            problems.append(f"missing: {name} {shape}" + (f" (nearest: {near})" if near else ""))
        elif tensors[name].shape != shape:
            problems.append(f"shape: {name} must be {shape}, but is {tensors[name].shape}")
        elif "float" not in tensors[name].dtype.name:
            problems.append(f"dtype: {name} must be floating-point, but is {tensors[name].dtype}")
    problems += [f"unexpected: {name}" for name in unexpected]
    check_all(f"The tensors of {source} do not match the encoder:", problems)
    for entry in entries:
        entry.assign([to_float32(tensors[name]) for name in entry.names])


def to_float32(tensor):
    """Returns a tensor as float32, which represents bfloat16 and float16 exactly."""
    return np.asarray(tensor).astype("float32", copy=False)
