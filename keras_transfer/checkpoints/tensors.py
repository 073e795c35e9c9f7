"""Named tensors from files, and putting every one of them into its variable or saying why not."""

import dataclasses
import difflib
import json
import logging

import keras
import numpy as np

log = logging.getLogger("keras_transfer")


class CheckpointError(ValueError):
    """A checkpoint cannot be read, is of another architecture, or does not fit the encoder."""


@dataclasses.dataclass
class Entry:
    """Which tensors of a checkpoint make one variable: side by side on the last axis, transposed if they are torch's.

    Attributes:
        variable: the `keras.Variable`.
        names: the tensors' names.
        transpose: bool, [out, in] in the file and [in, out] here.
    """

    variable: object
    names: list
    transpose: bool = False

    def join(self, tensors):
        """Returns the variable's value, from the tensors' in order."""
        return np.concatenate([tensor.T if self.transpose else tensor for tensor in tensors], axis=-1)

    def split(self):
        """Returns the tensors' values by name, from the variable's."""
        value = to_float32(keras.ops.convert_to_numpy(self.variable))
        parts = np.split(value, len(self.names), axis=-1)
        return {name: np.ascontiguousarray(p.T if self.transpose else p) for name, p in zip(self.names, parts)}

    def shapes(self):
        """Returns the shapes that the tensors must have, by name."""
        *front, last = self.variable.shape
        shape = (*front, last // len(self.names))
        return dict.fromkeys(self.names, tuple(reversed(shape)) if self.transpose else shape)


def read_json(file, expected=dict):
    """Returns what a JSON file holds: an object, or a list where `expected` is `list`.

    Raises:
        CheckpointError: there is no such file, or it holds something else.
    """
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} must be a JSON file. Received: {error}") from error
    if not isinstance(value, expected):
        raise CheckpointError(f"{file} must hold a JSON {expected.__name__}. Received: {type(value).__name__}")
    return value


def read_safetensors(files):
    """Returns a dict from tensor name to a function that reads it, for one file or all shards.

    Raises:
        CheckpointError: a file is truncated or no safetensors file.
    """
    import ml_dtypes  # noqa: F401 (safetensors reads bfloat16 once this is imported; Keras on torch does not do it)
    from safetensors import SafetensorError, safe_open

    readers = {}
    for file in files:
        try:
            handle = safe_open(file, framework="numpy")
            for name in handle.keys():  # noqa: SIM118 (not a dict)
                readers[name] = lambda handle=handle, name=name: handle.get_tensor(name)
        except (SafetensorError, OSError) as error:
            size = f"{file.stat().st_size:,} bytes" if file.exists() else "no such file"
            raise CheckpointError(
                f"{file} is truncated or not a safetensors file ({error}): download or copy it again. Received: {size}"
            ) from error
    return readers


def shard_files(index):
    """Returns the shards that a `*.index.json` names.

    Raises:
        CheckpointError: it names none, or some are missing.
    """
    names = sorted(set(read_json(index).get("weight_map", {}).values()))
    if not names:
        raise CheckpointError(f"{index} has no `weight_map`. Received: {sorted(read_json(index))}")
    if missing := [name for name in names if not (index.parent / name).exists()]:
        raise CheckpointError(f"{index} names shards that are not there. Missing: {', '.join(missing)}")
    return [index.parent / name for name in names]


def fill(entries, readers, source):
    """Puts every tensor into its variable, or changes nothing and raises one error that lists all that does not fit.

    Args:
        entries: list of `Entry`s, one for each variable.
        readers: dict from tensor name to a function that returns it.
        source: what to call the checkpoint in the error.

    Raises:
        CheckpointError: tensors are missing, unexpected, of another shape, or no floating-point numbers.
    """
    shapes = {name: shape for entry in entries for name, shape in entry.shapes().items()}
    tensors = {name: readers[name]() for name in shapes if name in readers}
    unexpected = sorted(set(readers) - set(shapes))
    problems = []
    for name, shape in shapes.items():
        if name not in tensors:
            near = difflib.get_close_matches(name, unexpected, n=1)
            problems.append(f"missing: {name} {shape}" + (f" (nearest: {near[0]})" if near else ""))
        elif tensors[name].shape != shape:
            problems.append(f"shape: {name} should be {shape}, is {tensors[name].shape}")
        elif tensors[name].dtype.kind in "biu":
            problems.append(f"dtype: {name} should be floating-point, is {tensors[name].dtype}")
    problems += [f"unexpected: {name}" for name in unexpected]
    if problems:
        raise CheckpointError(f"{source} does not fit the encoder:\n  " + "\n  ".join(problems))
    for entry in entries:
        entry.variable.assign(entry.join([to_float32(tensors[name]) for name in entry.names]))


def to_float32(tensor):
    """Returns a tensor as float32 (bfloat16 and float16 hold no more)."""
    return np.asarray(tensor).astype("float32")
