"""The files of `Checkpoint`: written whole or not at all, and read only where every bit is as it was written.

A checkpoint is a safetensors file, so that others can look into it: the tensors, and a JSON object in its metadata. Its
last tensor is the SHA-256 of all bytes before it.
"""

import dataclasses
import errno
import hashlib
import json
import logging
import math
import os
import pathlib
import re

import keras
import numpy as np

from keras_transfer.files import file_written_whole

log = logging.getLogger("keras_transfer")

FORMAT = "keras_transfer checkpoint 1"
DTYPES = {  # in safetensors, and in Keras
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"},
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_NAME = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")
_DIGEST = "sha256"


class Damaged(Exception):
    """A checkpoint is not as it was written."""


@dataclasses.dataclass
class Stored:
    """An intact checkpoint.

    Attributes:
        path: the file.
        state: dict, what was written with the tensors.
        tensors: dict from names to `(dtype, shape, place in the file)`, in order.
    """

    path: pathlib.Path
    state: dict
    tensors: dict

    def read(self, name):
        """Returns a tensor as an array of its own."""
        dtype, shape, place = self.tensors[name]
        return np.fromfile(self.path, _numpy_dtype(dtype), math.prod(shape), offset=place).reshape(shape)


def write(folder, epoch, batch, state, variables):
    """Writes a checkpoint, and returns its path.

    Args:
        folder: path of a folder that exists.
        epoch: int, the epoch in which the run goes on, from 0.
        batch: int, the batch with which it goes on, from 0.
        state: dict, as JSON has it.
        variables: dict from names to Keras variables or arrays.

    Raises:
        OSError: the disk is full, or the folder cannot be written. The checkpoints there are as they were.
    """
    header, end = {"__metadata__": {"format": FORMAT, "state": json.dumps(state)}}, 0
    for name, variable in variables.items():
        dtype, shape = keras.backend.standardize_dtype(variable.dtype), list(variable.shape)
        if dtype not in _CODES:
            raise ValueError(f"a checkpoint holds {', '.join(_CODES)}. Received: {dtype}, of {name}")
        start, end = end, end + math.prod(shape) * _numpy_dtype(dtype).itemsize
        header[name] = {"dtype": _CODES[dtype], "shape": shape, "data_offsets": [start, end]}
    header[_DIGEST] = {"dtype": "U8", "shape": [32], "data_offsets": [end, end + 32]}
    path, digest = pathlib.Path(folder) / f"epoch-{epoch:04d}-batch-{batch:06d}.safetensors", hashlib.sha256()
    try:
        with file_written_whole(path) as file:
            for part in _parts(header, variables):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return path


def _parts(header, variables):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name, variable in variables.items():
        # A backend may keep another dtype than it says: JAX no 64 bits, torch int64 for uint32.
        dtype = _numpy_dtype(DTYPES[header[name]["dtype"]])
        value = keras.ops.convert_to_numpy(variable).astype(dtype, copy=False)
        yield np.ascontiguousarray(value).reshape(-1).view("uint8").data


def _numpy_dtype(name):
    import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 and float8 once this is imported; Keras on torch does not do it)

    return np.dtype(name)


def read(path):
    """Returns a checkpoint as `Stored`; its tensors are read when they are asked for.

    Raises:
        Damaged: it is not as it was written.
        ValueError: it has another format, of another version of this library.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        left, digest = size - 32, hashlib.sha256()
        if left < 8:
            raise Damaged(f"it has {size} bytes")
        while left and (part := file.read(min(left, 2**20))):
            digest.update(part)
            left -= len(part)
        if digest.digest() != file.read(32):
            raise Damaged(f"its checksum is not that of its {size:,} bytes")
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{path} must be of the format {FORMAT!r}: it was written by another version of keras_transfer, which can "
            f"read it. Received: {metadata.get('format')!r}"
        )
    del header[_DIGEST]
    tensors = {
        name: (DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }
    return Stored(pathlib.Path(path), json.loads(metadata["state"]), tensors)


def newest(folder):
    """Returns the newest intact checkpoint of a folder, or None where it has none, and the damaged ones' paths.

    Raises:
        ValueError: all that it has are damaged.
    """
    damaged = {}
    for path in _newest_first(folder):
        try:
            stored = read(path)
        except Damaged as error:
            damaged[path] = error
            log.warning("a checkpoint is damaged, and passed over: %s: %s", path, error)
        else:
            return stored, list(damaged)
    if damaged:
        found = "; ".join(f"{path.name}: {error}" for path, error in damaged.items())
        raise ValueError(
            f"no checkpoint in {folder} is intact. Nothing was deleted; to begin anew, delete them or take another "
            f"folder. Received: {found}"
        )
    return None, []


def prepare(folder):
    """Makes the folder, finds out whether it can be written, and removes what killed processes left half written.

    Raises:
        OSError: it cannot be written.
    """
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for half in folder.glob(".epoch-*.safetensors-*.tmp"):
            half.unlink(missing_ok=True)
        with file_written_whole(folder / ".writable") as file:
            file.write(b"0")
        (folder / ".writable").unlink()
    except OSError as error:
        raise _cannot_write(folder, error) from error


def prune(folder, keep, damaged):
    """Deletes the damaged checkpoints, and of the others all but the newest `keep`."""
    for path in [*damaged, *[path for path in _newest_first(folder) if path not in damaged][keep:]]:
        path.unlink(missing_ok=True)


def _newest_first(folder):
    found = [(match, path) for path in pathlib.Path(folder).iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, key=lambda pair: [-int(number) for number in pair[0].groups()])]


def _cannot_write(folder, error):
    reasons = {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "the disk is full"),
        errno.EFBIG: "no file may be so large",
        **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file stands where a folder should"),
    }
    reason = reasons.get(error.errno, "the folder must be writable")
    return OSError(
        error.errno,
        f"no checkpoint can be written into {str(folder)!r}: {reason}. Those there are as they were. Received: {error}",
    )
