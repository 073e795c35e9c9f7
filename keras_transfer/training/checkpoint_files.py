"""Files of training checkpoints, which are written atomically, and loaded only if they are intact.

The files are in the safetensors format, so other programs can open them. The metadata contains a JSON object, and the
last tensor is the SHA-256 of all bytes before it.
"""

import concurrent.futures
import contextlib
import copy
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

from keras_transfer.core.files import atomic_file
from keras_transfer.core.folder_lock import lock_folder
from keras_transfer.distribute import agree, in_first_process, is_chief, processes_of, together

log = logging.getLogger("keras_transfer")
FORMAT = "keras_transfer training checkpoint 2"

DTYPES = {  # Maps names in safetensors to names in Keras.
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"},
}

_CODES = {dtype: code for code, dtype in DTYPES.items()}
CHECKPOINT_NAME = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")
_DIGEST = "sha256"


class CheckpointFolder:
    """The folder of a run, which the first of its processes locks and writes. All of them call the same methods.

    Args:
        path: Path of the folder.
        model: The model of the run.
        keep: Integer. Number of training checkpoints to keep.
        background: Boolean. Whether training goes on while one is written.
    """

    def __init__(self, path, model, keep, background):
        self.path, self._model, self._keep, self._background = path, model, keep, background
        self._damaged, self._writing = [], None
        self._lock = in_first_process(lambda: prepare(path), model)

    def newest(self):
        """Returns the newest intact training checkpoint, which the first process has found, or `None`."""
        stored, self._damaged = in_first_process(lambda: newest(self.path), self._model) or (None, [])
        if processes_of(self._model)[1] == 1:
            return stored
        place = [-1, 0] if stored is None else [stored.state["epoch"], stored.state["batch"]]
        epoch, batch = (agree(number, self._model) for number in place)
        return together(lambda: stored or self._read(epoch, batch), self._model) if epoch >= 0 else None

    def _read(self, epoch, batch):
        """Returns the training checkpoint that the first process has found."""
        path = path_of(self.path, epoch, batch)
        if not path.exists():
            raise FileNotFoundError(
                "All processes of a run must see the folder of its training checkpoints. Use a shared file system. "
                f"Received: no {path}, which the first process has"
            )
        return read(path)

    def write(self, epoch, batch, state, variables):
        """Writes a training checkpoint, and deletes older ones. The arguments are those of the function `write`."""
        damaged, self._damaged = self._damaged, []

        def write_and_prune():
            path = write(self.path, epoch, batch, state, variables)
            prune(self.path, self._keep, [old for old in damaged if old != path])

        if not self._background:
            in_first_process(write_and_prune, self._model)
            return
        self.wait()
        if is_chief(self._model):
            state = copy.deepcopy(state)
            variables = {name: np.array(keras.ops.convert_to_numpy(variable)) for name, variable in variables.items()}
            self._writing = _in_background(write_and_prune)

    def wait(self):
        """Waits until the last training checkpoint is written, and raises the error of any process if this failed."""
        in_first_process(self._result, self._model)

    def _result(self):
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self):
        """Waits for the last training checkpoint, whose error was logged when it occurred, and unlocks the folder."""
        try:
            with contextlib.suppress(OSError):
                self._result()
        finally:
            if self._lock is not None:
                self._lock.release()


def _in_background(function):
    """Calls a function in a thread, for which the process waits before it exits. Returns its `Future`.

    Errors are logged at once, and raised by the result of the `Future`.
    """

    def call():
        try:
            function()
        except OSError as error:
            log.error("A training checkpoint was not written: %s", error)
            raise

    thread = concurrent.futures.ThreadPoolExecutor(1, "training checkpoint")
    future = thread.submit(call)
    thread.shutdown(wait=False)
    return future


# === Files ===


class Damaged(Exception):
    """Raised if a file is not as it was written."""


@dataclasses.dataclass
class Stored:
    """An intact training checkpoint.

    Attributes:
        path: Path of the file.
        state: Dict that was written with the tensors.
        tensors: Dict from names to `(dtype, shape, offset in the file)`, in order.
    """

    path: pathlib.Path
    state: dict
    tensors: dict

    def read(self, name):
        """Returns a tensor as a new array."""
        dtype, shape, place = self.tensors[name]
        return np.fromfile(self.path, _numpy_dtype(dtype), math.prod(shape), offset=place).reshape(shape)


def path_of(folder, epoch, batch):
    """Returns the path of the training checkpoint from which a run continues at an epoch and a batch."""
    return pathlib.Path(folder) / f"epoch-{epoch:04d}-batch-{batch:06d}.safetensors"


def write(folder, epoch, batch, state, variables):
    """Writes a training checkpoint and returns its path.

    Args:
        folder: Path of an existing folder.
        epoch: Integer. The epoch at which the run continues, counted from 0.
        batch: Integer. The batch at which the run continues, counted from 0.
        state: Dict of JSON values.
        variables: Dict from names to Keras variables or arrays.
    """
    header, end = {"__metadata__": {"format": FORMAT, "state": json.dumps(state)}}, 0
    for name, variable in variables.items():
        dtype, shape = keras.backend.standardize_dtype(variable.dtype), list(variable.shape)
        if dtype not in _CODES:
            raise ValueError(f"Variables must have one of the dtypes {', '.join(_CODES)}. Received: {dtype} for {name}")
        start, end = end, end + math.prod(shape) * _numpy_dtype(dtype).itemsize
        header[name] = {"dtype": _CODES[dtype], "shape": shape, "data_offsets": [start, end]}
    header[_DIGEST] = {"dtype": "U8", "shape": [32], "data_offsets": [end, end + 32]}
    path, digest = path_of(folder, epoch, batch), hashlib.sha256()
    try:
        with atomic_file(path) as file:
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
        # The values may differ in dtype from the variable: JAX has no 64-bit dtypes, and torch uses int64 for uint32.
        dtype = _numpy_dtype(DTYPES[header[name]["dtype"]])
        value = keras.ops.convert_to_numpy(variable).astype(dtype, copy=False)
        yield np.ascontiguousarray(value).reshape(-1).view("uint8").data


def _numpy_dtype(name):
    import ml_dtypes  # noqa: F401 (adds bfloat16 and float8 to NumPy; Keras on torch does not import it)

    return np.dtype(name)


def read(path):
    """Returns a training checkpoint as `Stored`, without loading the tensors."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        left, digest = size - 32, hashlib.sha256()
        if left < 8:
            raise Damaged(f"it has only {size} bytes")
        while left and (part := file.read(min(left, 2**20))):
            digest.update(part)
            left -= len(part)
        if digest.digest() != file.read(32):
            raise Damaged(f"its checksum does not match its {size:,} bytes")
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"The training checkpoint {path} was written by a different version of keras_transfer. Continue the run "
            f"with that version, or use another folder. Expected the format {FORMAT!r}. "
            f"Received: {metadata.get('format')!r}"
        )
    del header[_DIGEST]
    tensors = {
        name: (DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }
    return Stored(pathlib.Path(path), json.loads(metadata["state"]), tensors)


def newest(folder):
    """Returns the newest intact training checkpoint of a folder, or `None`, and the paths of newer damaged ones."""
    damaged = {}
    for path in _newest_first(folder):
        try:
            stored = read(path)
        except Damaged as error:
            damaged[path] = error
            log.warning("Skipping a damaged training checkpoint: %s: %s", path, error)
        else:
            return stored, list(damaged)
    if damaged:
        found = "; ".join(f"{path.name}: {error}" for path, error in damaged.items())
        raise ValueError(
            f"All training checkpoints in {folder} are damaged. To start over, delete them or use another folder. "
            f"Received: {found}"
        )
    return None, []


def prepare(folder):
    """Creates the folder, checks that it is writable, and removes incomplete files of killed processes.

    Returns:
        The `FolderLock` of this process on the folder.
    """
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
        try:
            for half in folder.glob(".epoch-*.safetensors-*.tmp"):
                half.unlink(missing_ok=True)
            with atomic_file(folder / ".writable") as file:
                file.write(b"0")
            (folder / ".writable").unlink()
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return lock


def prune(folder, keep, damaged):
    """Deletes damaged files, and all others except for the newest `keep`."""
    for path in [*damaged, *[path for path in _newest_first(folder) if path not in damaged][keep:]]:
        path.unlink(missing_ok=True)


def _newest_first(folder):
    files = [path for path in pathlib.Path(folder).iterdir() if path.is_file()]
    found = [(match, path) for path in files if (match := CHECKPOINT_NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, key=lambda pair: [-int(number) for number in pair[0].groups()])]


def _cannot_write(folder, error):
    reasons = {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "the disk is full"),
        errno.EFBIG: "the file would exceed the maximum size",
        **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "the path is a file"),
    }
    reason = reasons.get(error.errno, "the folder is not writable")
    return OSError(
        error.errno,
        f"Cannot write a training checkpoint into {str(folder)!r}: {reason}. Existing files are unchanged. "
        f"Received: {error}",
    )
