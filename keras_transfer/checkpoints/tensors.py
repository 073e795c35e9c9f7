"""Named tensors from files, and putting every one of them into its variable or saying why not."""

import dataclasses
import difflib
import json
import logging

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
        value = np.asarray(self.variable.value.numpy() if hasattr(self.variable.value, "numpy") else self.variable)
        parts = np.split(value.astype("float32"), len(self.names), axis=-1)
        return {name: np.ascontiguousarray(p.T if self.transpose else p) for name, p in zip(self.names, parts)}

    def shapes(self):
        """Returns the shapes that the tensors must have, by name."""
        *front, last = self.variable.shape
        shape = (*front, last // len(self.names))
        return dict.fromkeys(self.names, tuple(reversed(shape)) if self.transpose else shape)


def read_safetensors(files):
    """Returns a dict from tensor name to a function that reads it, for one file or all shards.

    Raises:
        CheckpointError: a file is truncated or no safetensors file.
    """
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
        CheckpointError: some are missing.
    """
    names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
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
        CheckpointError: tensors are missing, unexpected, or of another shape.
    """
    shapes = {name: shape for entry in entries for name, shape in entry.shapes().items()}
    tensors = {name: to_float32(readers[name]()) for name in shapes if name in readers}
    unexpected = sorted(set(readers) - set(shapes))
    problems = []
    for name, shape in shapes.items():
        if name not in tensors:
            near = difflib.get_close_matches(name, unexpected, n=1)
            problems.append(f"missing: {name} {shape}" + (f" (nearest: {near[0]})" if near else ""))
        elif tensors[name].shape != shape:
            problems.append(f"shape: {name} should be {shape}, is {tensors[name].shape}")
    problems += [f"unexpected: {name}" for name in unexpected]
    if problems:
        raise CheckpointError(f"{source} does not fit the encoder:\n  " + "\n  ".join(problems))
    for entry in entries:
        entry.variable.assign(entry.join([tensors[name] for name in entry.names]))


def to_float32(tensor):
    """Returns a tensor as float32 (bfloat16 and float16 hold no more)."""
    return np.asarray(tensor).astype("float32")
