"""Outputs of a model for each row of a dataset, computed once, stored in memory or in files, and read like arrays."""

import errno
import hashlib
import json
import logging
import os
import pathlib
import shutil
import tempfile
import time
import zlib

import keras
import numpy as np

from keras_transfer.core.arrays import data_digest
from keras_transfer.core.expect import NotApplicableError, expect
from keras_transfer.core.files import atomic_file, naming
from keras_transfer.core.folder_lock import lock_folder
from keras_transfer.data.batching import Batches
from keras_transfer.data.planning import Options
from keras_transfer.keras_internals import predict_batch
from keras_transfer.version import __version__

log = logging.getLogger("keras_transfer")
RECORD, CHECKSUMS = "cache.json", "checksums.npy"
INTERVAL = 5.0  # Number of seconds between two points from which a killed process resumes.


class StoredRows:
    """The values of one output of a model for all rows of a dataset, a column of `Batches` indexed like an array.

    Padding is not stored. In batches, it is 0.

    Args:
        kind: Dict of JSON values: whether there is an axis of `tokens`, how many `extra` tokens the model adds to a
            row, the `shape` of a token or else of a row, and the `dtype`.
        ends: Integer array `[rows]`. Number of tokens of each row.
        fingerprint: String that stands for the weights and settings of the model.

    Attributes:
        values: Array `[tokens of all rows, ...]`, or `[rows, ...]` without an axis of tokens.
        starts: Integer array `[rows + 1]`. Position at which each row starts in `values`.
        files: `RowFiles` that exist as long as the values are used, or `None`.
    """

    def __init__(self, kind, ends, fingerprint):
        self.kind, self.fingerprint = kind, fingerprint
        self.hold(None)
        sizes = ends + kind["extra"] if kind["tokens"] else np.ones_like(ends)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.shape = (len(ends), *([int(sizes.max())] if kind["tokens"] else []), *kind["shape"])
        self.ndim, self.dtype = len(self.shape), np.dtype(kind["dtype"])

    @property
    def has_tokens(self):
        """Boolean. Whether a row has values for each of its tokens, so that batches are as long as their inputs."""
        return self.kind["tokens"]

    @property
    def stored_shape(self):
        """Tuple of integers. The shape of `values`."""
        return (int(self.starts[-1]), *self.kind["shape"])

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        """Returns an array of rows, given an integer array and, if not all, a slice of the number of tokens."""
        rows, tokens = key if isinstance(key, tuple) else (key, slice(None))
        if not self.kind["tokens"]:
            return np.asarray(self.values[rows])
        length = self.shape[1] if tokens.stop is None else tokens.stop + self.kind["extra"]
        found = np.zeros((len(rows), length, *self.kind["shape"]), self.dtype)
        for place, row in enumerate(rows):
            own = self._of(row)[:length]
            found[place, : len(own)] = own
        return found

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[np.arange(len(self))], dtype)

    def hold(self, values, files=None):
        """Sets where the values are."""
        self.values, self.files = values, files

    def put(self, rows, values):
        """Stores the values of some rows, an array with padding."""
        with np.errstate(over="ignore"):
            stored = np.asarray(values).astype(self.dtype)
        if self.dtype == np.float16 and not np.isfinite(stored).all():
            rule = "The activations exceed the range of float16. Use `dtype=None`, or for probes other `layers`."
            expect(not np.isfinite(values).all(), rule, error=NotApplicableError, largest=float(np.abs(values).max()))
        for row, value in zip(rows, stored):
            own = self._of(row)
            own[...] = value[: len(own)] if self.kind["tokens"] else value

    def checksum(self, row):
        """Returns the checksum of the values of a row."""
        return zlib.crc32(self._of(row).tobytes())

    def _of(self, row):
        return self.values[self.starts[row] : self.starts[row + 1]]


def store_rows(model, data, fingerprint=None, folder=None, dtype=None, memory_limit=2**31, verbose="auto", ends=None):
    """Runs a model once for each row of a dataset, and returns its output as `StoredRows`, or a dict of those of each.

    Args:
        model: Functional model, such as a `Task`, with one output or a dict of outputs.
        data: `Batches` that have its inputs, by their names.
        fingerprint: String that stands for the weights and settings of the model. `None` for `fingerprint_of(model)`.
        folder: Path of a folder. What it has of the same model, data, dtype and version is not computed again. `None`
            for memory, or for temporary files above `memory_limit`.
        dtype: String. Dtype of the stored floats. `None` for those of the model.
        ends: Integer array `[rows]`. Number of places of each row of the outputs, at most that of its tokens, if these
            are words. `None` if the places are tokens.
    """
    names, several = _input_names(model), isinstance(model.output, dict)
    tensors = model.output if several else {"output": model.output}
    missing = [name for name in names if name not in data.inputs]
    expect(not missing, f"The data must have the inputs {names}.", missing=missing)
    inputs = {name: data.inputs[name] for name in dict.fromkeys([*names, "padding_mask"]) if name in data.inputs}
    tokens, fingerprint = row_ends(data), fingerprint or fingerprint_of(model)
    ends = tokens if ends is None else ends
    # A different version of the library may compute different values with the same weights.
    made_by = {"model": fingerprint, "data": _digest(inputs, tokens), "dtype": str(dtype), "version": __version__}
    files = None if folder is None else RowFiles(made_by, folder)
    columns, todo = None, np.arange(len(ends))
    if files is not None and (found := files.read(len(tensors), ends, fingerprint)):
        columns, todo = found
    bar = keras.utils.Progbar(len(ends), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    finished = len(ends) - len(todo)
    for rows, length, outputs in _run(model, inputs, data, todo):
        outputs = outputs if several else {"output": outputs}
        kinds = [_kind(tensors[name], outputs[name], rows, length, dtype) for name in tensors]
        if columns is None:
            columns = [StoredRows(kind, ends, fingerprint) for kind in kinds]
            if files is None and _size(columns) > memory_limit:
                files = RowFiles(made_by)
            if files is not None:
                files.create(columns)
            else:
                for column in columns:
                    column.hold(np.empty(column.stored_shape, column.dtype))
        expected = [column.kind for column in columns]
        expect(kinds == expected, f"All batches must have activations of one kind, {expected}.", found=kinds)
        for column, name in zip(columns, tensors):
            column.put(rows, outputs[name])
        finished += len(rows)
        if files is not None:
            files.finish(rows)
        bar.update(finished)
    if files is not None:
        files.finish((), last=True)
    return dict(zip(tensors, columns)) if several else columns[0]


def _input_names(model):
    """Returns the names of a functional model's inputs, in their order."""
    return list(model.input) if isinstance(model.input, dict) else [tensor.name for tensor in model.inputs]


def fingerprint_of(model, settings=None):
    """Returns a string that identifies the weights and settings of a functional model.

    Args:
        settings: Config that describes all layers. Defaults to `None`, the config of each layer.
    """
    names = list(model.output) if isinstance(model.output, dict) else None
    parts = [names, None if settings is None else _without_names(settings)]
    for operation in model.operations:
        has_config = isinstance(operation, keras.layers.Layer) and settings is None
        config = _without_names(operation.get_config()) if has_config else None
        parts.append([type(operation).__name__, getattr(operation, "compute_dtype", None), config])
    described = json.dumps(parts, default=lambda value: type(value).__name__)
    digest = hashlib.blake2b(described.encode(), digest_size=16)
    for weight in model.weights:
        digest.update(keras.ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()


def _without_names(config):
    """Returns a config without settings that do not affect outputs: `trainable`, and names, which Keras numbers."""
    if isinstance(config, dict):
        left_out = ("name", "trainable", "frozen", "adapter_layout")
        return {name: _without_names(value) for name, value in config.items() if name not in left_out}
    return [_without_names(value) for value in config] if isinstance(config, (list, tuple)) else config


def row_ends(data):
    """Returns the number of tokens of each row of `Batches` up to its last real token, at least 1."""
    mask = data.inputs.get("padding_mask")
    if mask is None:
        return np.full(len(next(iter(data.inputs.values()))), max(data.options.lengths))
    real = np.asarray(mask) != 0
    return np.where(real.any(axis=1), real.shape[1] - np.argmax(real[:, ::-1], axis=1), 1)


def _run(model, inputs, data, todo):
    """Yields `(rows, length, outputs)` for batches of the rows in `todo`, grouped by length."""
    if not len(todo):
        return
    options = Options(data.options.batch_size, data.options.lengths, grouped=True)
    plan = Batches({name: column[todo] for name, column in inputs.items()}, options=options)
    for i, (_, rows) in enumerate(plan.planned()):
        (batch,) = plan[i]
        read = {name: batch[name] for name in _input_names(model)}
        if not isinstance(model.input, dict):
            read = keras.tree.pack_sequence_as(model.input, list(read.values()))
        length = max((values.shape[1] for values in batch.values() if len(values.shape) > 1), default=0)
        yield todo[rows], length, predict_batch(model, read)


def _kind(tensor, values, rows, length, dtype):
    """Returns JSON values that describe an output, such as whether it has an axis of tokens."""
    rule = "The layers below must return one row for each text. Cut elsewhere."
    expect(len(values.shape) != 0 and values.shape[0] == len(rows), rule, values=values.shape, rows=len(rows))
    tokens = len(tensor.shape) > 1 and tensor.shape[1] is None
    stored = keras.backend.standardize_dtype(values.dtype)
    if "float" in stored:
        stored = dtype or ("float32" if stored == "bfloat16" else stored)  # NumPy files do not support bfloat16.
    extra = values.shape[1] - length if tokens else 0
    return {"tokens": tokens, "extra": int(extra), "shape": list(values.shape[2 if tokens else 1 :]), "dtype": stored}


def _digest(inputs, ends):
    """Returns a digest of the inputs that does not depend on the length to which they are padded."""

    def real(column):
        has_tokens = column.ndim > 1 and column.dtype != object
        return column[np.arange(column.shape[1])[None] < ends[:, None]] if has_tokens else column

    return data_digest({"": ends, **{name: real(column) for name, column in inputs.items()}})


def _size(columns):
    """Returns the number of bytes of the values of `StoredRows`."""
    return sum(int(np.prod(column.stored_shape)) * column.dtype.itemsize for column in columns)


class RowFiles:
    """The files of `StoredRows` in a folder, whose rows a killed process leaves for the next one to complete.

    `cache.json` describes the contents of the arrays, and has the strings of `made_by`, on which they depend.
    `checksums.npy` has the checksums `[arrays, rows]` of the rows that are in the files, and 0 for the others.
    """

    def __init__(self, made_by, folder=None):
        self._temporary = tempfile.TemporaryDirectory(prefix="keras_transfer-") if folder is None else None
        self.path, self.made_by = pathlib.Path(self._temporary.name if folder is None else folder), made_by
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(self.path)
        self._columns, self._checksums = [], None
        self._rows, self._time = [], time.monotonic()

    def read(self, count, ends, fingerprint):
        """Returns the `count` `StoredRows` in the folder and the rows that they lack, or `None` if there are none.

        Damaged rows count as missing, and inconsistent files as none.
        """
        record = self.path / RECORD
        if not record.exists():
            others = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
            rule = "`folder` must be new, empty, or contain a cache."
            expect(not others, rule, folder=str(self.path), contains=sorted(others)[:3])
            return None
        try:
            stored = json.loads(record.read_text("utf-8"))
            kinds, made_by = stored["kinds"], dict(stored["made_by"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                "`folder` must contain a cache, or be new. Delete it, or use a different one. "
                f"Received: folder={str(self.path)!r}, whose {RECORD} is damaged"
            ) from error
        differ = [name for name, value in self.made_by.items() if made_by.get(name) != value]
        rule = f"`folder` contains the cache of a different {' and '.join(differ)}. Use another folder, or delete it."
        expect(not differ, rule, folder=str(self.path))
        try:
            columns = [StoredRows(kind, ends, fingerprint) for kind in kinds]
            expect(len(columns) == count, f"There must be {count} arrays.", found=len(columns))
            expected = self._arrays_of(columns)
            for mode in ("r", "r+"):  # "r" fails on a file that is too short, which "r+" would extend.
                arrays = [np.load(path, mmap_mode=mode) for path, _, _ in expected]
            found = [(array.shape, array.dtype) for array in arrays]
            wanted = [(shape, dtype) for _, shape, dtype in expected]
            expect(found == wanted, f"Arrays must have the shapes and dtypes {wanted}.", found=found)
        except Exception as error:  # The process was killed before it had created all files, or a file is damaged.
            log.warning(
                "The cache in %s is computed again, because its files are not complete or are damaged: %s",
                self.path,
                error,
            )
            return None
        self._set(columns, arrays)
        begun = self._checksums.any(axis=0)
        todo = np.array(
            [not begun[row] or self._sums(row) != self._checksums[:, row].tolist() for row in range(len(ends))]
        )
        if damaged := int((begun & todo).sum()):
            log.warning("%d of %d rows of the cache in %s are damaged.", damaged, len(ends), self.path)
        if todo.any():
            log.info("The cache in %s has %d of %d rows. It is completed.", self.path, (~todo).sum(), len(ends))
        return columns, np.flatnonzero(todo)

    def create(self, columns):
        """Creates the files of `StoredRows`."""
        size = _size(columns)
        self._check_room(size, shutil.disk_usage(self.path).free)
        expected, arrays = self._arrays_of(columns), []
        (self.path / CHECKSUMS).unlink(missing_ok=True)
        try:
            with atomic_file(self.path / RECORD) as file:
                file.write(json.dumps({"made_by": self.made_by, "kinds": [each.kind for each in columns]}).encode())
            for path, shape, dtype in expected:
                arrays.append(np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape))
                _allocate(path)
        except OSError as error:
            free = shutil.disk_usage(self.path).free
            for path in (*(path for path, _, _ in expected), self.path / RECORD):
                path.unlink(missing_ok=True)
            if error.errno == errno.ENOSPC:
                self._check_room(size, min(free, size - 1))
            raise
        self._set(columns, arrays)
        log.info("%.2f GB of activations are stored in %s", size / 1e9, self.path)

    def _arrays_of(self, columns):
        """Returns `(path, shape, dtype)` of the file of each column, and of the checksums, which are created last."""
        names = [f"activations_{i}.npy" for i in range(len(columns))]
        files = [(self.path / name, each.stored_shape, each.dtype) for name, each in zip(names, columns)]
        return [*files, (self.path / CHECKSUMS, (len(columns), len(columns[0])), np.dtype("uint32"))]

    def _set(self, columns, arrays):
        self._columns = columns
        *values, self._checksums = arrays
        for column, array in zip(columns, values):
            column.hold(array, self)

    def _sums(self, row):
        return [column.checksum(row) for column in self._columns]

    def _check_room(self, size, free):
        if size > free:
            raise OSError(
                errno.ENOSPC,
                f"The activations need {size / 1e9:.2f} GB. Use `dtype='float16'`, or a folder on a larger disk. "
                f"Received: {free / 1e9:.2f} GB free in {str(self.path)!r}",
            )

    def finish(self, rows, last=False):
        """Records that the values of rows are stored, after flushing them to disk."""
        self._rows.extend(rows)
        if last or time.monotonic() - self._time >= INTERVAL:
            with naming(self.path):
                for row in self._rows:
                    self._checksums[:, row] = self._sums(row)
                for array in (*(column.values for column in self._columns), self._checksums) if self._rows else ():
                    array.flush()
            self._rows, self._time = [], time.monotonic()
        if last:  # Columns refer to their files, which exist as long as they do.
            self._columns = []
            self._lock.release()


def _allocate(path):
    """Reserves the disk space of a file. Otherwise, a full disk would kill the process while it writes."""
    if hasattr(os, "posix_fallocate"):  # Windows and macOS do not have it.
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, max(os.fstat(file.fileno()).st_size, 1))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # Not every file system supports this.
                    raise
