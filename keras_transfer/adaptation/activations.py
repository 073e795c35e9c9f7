"""Outputs of the lower layers of a model for each row of a dataset, computed once and indexed like an array."""

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

from keras_transfer.core.expect import expect
from keras_transfer.core.files import atomic_file, naming
from keras_transfer.core.folder_lock import lock_folder
from keras_transfer.data import Batches, Options
from keras_transfer.keras_internals import trace_predict
from keras_transfer.version import __version__

log = logging.getLogger("keras_transfer")
RECORD, DONE, CHECKSUMS = "cache.json", "done.npy", "checksums.npy"
INTERVAL = 5.0  # Number of seconds between two points from which a killed process resumes.


class Activations:
    """The values of one tensor of a model for all rows of a dataset, a column of `Batches` indexed like an array.

    Padding is not stored. In batches, it is 0.

    Args:
        values: Array `[tokens of all rows, ...]`, or `[rows, ...]` if the tensor has no axis of tokens.
        starts: Integer array `[rows + 1]`. Position at which each row starts in `values`, or `None` if each row is a
            single element of `values`.
        extra: Integer. Number of tokens that the model adds to each row.
        store: Object that keeps the files in existence while the values are used.
    """

    def __init__(self, values, starts, extra, fingerprint, store):
        self.values, self.starts, self.extra, self.fingerprint, self._store = values, starts, extra, fingerprint, store
        tokens = [] if starts is None else [int(np.diff(starts).max())]
        self.shape = (len(values) if starts is None else len(starts) - 1, *tokens, *values.shape[1:])
        self.ndim, self.dtype = len(self.shape), values.dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        """Returns an array of rows, given an integer array and a slice of the number of tokens to return."""
        rows, part = key
        if self.starts is None:
            return np.asarray(self.values[rows])
        length = part.stop + self.extra
        found = np.zeros((len(rows), length, *self.shape[2:]), self.dtype)
        for place, row in enumerate(rows):
            tokens = self.values[self.starts[row] : self.starts[row + 1]][:length]
            found[place, : len(tokens)] = tokens
        return found


def store_activations(cut, data, folder=None, dtype=None, memory_limit=2**31, verbose="auto"):
    """Runs the lower layers of a `Cut` once for each row, and returns a dict from names to `Activations`."""
    missing = [name for name in cut.lower.input if name not in data.inputs]
    expect(not missing, f"The data must have the inputs {list(cut.lower.input)}.", missing=missing)
    inputs = {name: data.inputs[name] for name in {**cut.lower.input, "padding_mask": None} if name in data.inputs}
    ends = row_ends(data)
    # A different version of the library may compute different values with the same weights.
    made_by = {"model": cut.fingerprint(), "data": _digest(inputs, ends), "dtype": str(dtype), "version": __version__}
    store = Memory() if folder is None else CacheFolder(made_by, folder)

    def starts_of(kinds):
        return [_starts(kind, ends) for kind, _ in zip(kinds, cut.names, strict=True)]

    kinds, arrays, todo = store.open(len(ends), starts_of)
    starts = None if kinds is None else starts_of(kinds)
    bar = keras.utils.Progbar(len(ends), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    finished = len(ends) - len(todo)
    for rows, length, outputs in _run(cut.lower, inputs, data, todo):
        outputs = [_checked(outputs[name], rows) for name in cut.names]
        found = [_kind(cut.inputs[name], values, length, dtype) for name, values in zip(cut.names, outputs)]
        if kinds is None:
            kinds, starts = found, starts_of(found)
            pairs = zip(kinds, starts)
            size = sum(np.prod(shape_of(*pair)) * np.dtype(pair[0]["dtype"]).itemsize for pair in pairs)
            if folder is None and size > memory_limit:
                store = CacheFolder(made_by)
            arrays = store.create(kinds, starts)
        expect(found == kinds, f"All batches must have activations of one kind, {kinds}.", found=found)
        for array, begins, values in zip(arrays, starts, outputs):
            for row, value in zip(rows, _cast(values, array.dtype)):
                own = array[begins[row] : begins[row + 1]]
                own[...] = value[: len(own)] if value.ndim == own.ndim else value
        store.finish(rows)
        finished += len(rows)
        bar.update(finished)
    store.finish((), last=True)
    return {
        name: Activations(array, begins if kind["tokens"] else None, kind["extra"], made_by["model"], store)
        for name, kind, begins, array in zip(cut.names, kinds, starts, arrays)
    }


def row_ends(data):
    """Returns the number of tokens of each row of `Batches` up to its last real token, at least 1."""
    mask = data.inputs.get("padding_mask")
    if mask is None:
        return np.full(len(next(iter(data.inputs.values()))), max(data.options.lengths))
    real = np.asarray(mask) != 0
    return np.where(real.any(axis=1), real.shape[1] - np.argmax(real[:, ::-1], axis=1), 1)


def _run(lower, inputs, data, todo):
    """Yields `(rows, length, outputs)` for batches of the rows in `todo`, grouped by length."""
    if not len(todo):
        return
    part = {name: column[todo] for name, column in inputs.items()}
    options = Options(data.options.batch_size, data.options.lengths, grouped=True)
    plan = Batches(part, options=options)
    first = 0
    for i in range(len(plan)):
        (batch,) = plan[i]
        if i == 0:
            trace_predict(lower, ({name: batch[name] for name in lower.input},))
        outputs = lower.predict_on_batch({name: batch[name] for name in lower.input})
        count = len(next(iter(batch.values())))
        length = max((values.shape[1] for values in batch.values() if len(values.shape) > 1), default=0)
        yield todo[plan.order[first : first + count]], length, outputs
        first += count


def _kind(tensor, values, length, dtype):
    """Returns JSON values that describe the activations, such as whether they have an axis of tokens."""
    tokens = len(tensor.shape) > 1 and tensor.shape[1] is None
    stored = keras.backend.standardize_dtype(values.dtype)
    if "float" in stored:
        stored = dtype or ("float32" if stored == "bfloat16" else stored)  # NumPy files do not support bfloat16.
    extra = values.shape[1] - length if tokens else 0
    return {"tokens": tokens, "extra": int(extra), "shape": list(values.shape[2 if tokens else 1 :]), "dtype": stored}


def _starts(kind, ends):
    """Returns the positions at which rows start in an array, and the end of the last row."""
    return np.concatenate([[0], np.cumsum(ends + kind["extra"] if kind["tokens"] else np.ones_like(ends))])


def _checked(values, rows):
    rule = "The layers below must return one row for each text. Cut elsewhere."
    expect(len(values.shape) != 0 and values.shape[0] == len(rows), rule, values=values.shape, rows=len(rows))
    return values


def _cast(values, dtype):
    """Returns an array in the dtype in which it is stored."""
    with np.errstate(over="ignore"):
        stored = np.asarray(values).astype(dtype)
    if dtype == np.float16 and not np.isfinite(stored).all() and np.isfinite(values).all():
        raise ValueError(
            "The activations exceed the range of float16. Use `dtype=None`. "
            f"Received: dtype='float16', and activations up to {np.abs(values).max():.3g}"
        )
    return stored


def _digest(inputs, ends):
    """Returns a digest of the inputs that does not depend on the length to which they are padded."""
    digest = hashlib.blake2b(ends.astype("int64").tobytes(), digest_size=16)
    for name, column in sorted(inputs.items()):
        digest.update(name.encode())
        if column.dtype == object:  # The encoder accepts texts.
            parts = (text if isinstance(text, bytes) else str(text).encode() for text in column)
            digest.update(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
        else:
            real = np.arange(column.shape[1])[None] < ends[:, None] if column.ndim > 1 else slice(None)
            digest.update(np.ascontiguousarray(column[real]).tobytes())
    return digest.hexdigest()


def shape_of(kind, starts):
    """Returns the shape of an array, given JSON values that describe it, and where rows start and the last one ends."""
    return (int(starts[-1]), *kind["shape"])


class Memory:
    """Arrays in memory, with the methods of `CacheFolder`."""

    def open(self, count, starts_of):
        return None, None, np.arange(count)

    def create(self, kinds, starts):
        return [np.empty(shape_of(*pair), pair[0]["dtype"]) for pair in zip(kinds, starts)]

    def finish(self, rows, last=False):
        """Does nothing: what is in memory is not written."""


class CacheFolder:
    """Stores arrays as files in a folder.

    `cache.json` describes the contents of the arrays, and has the strings of `made_by`, on which they depend.
    `done.npy` has a 1 for each row whose values are in the files, and `checksums.npy` has the checksums `[arrays,
    rows]` of these values.
    """

    def __init__(self, made_by, folder=None):
        self._temporary = tempfile.TemporaryDirectory(prefix="keras_transfer-") if folder is None else None
        self.path, self.made_by = pathlib.Path(self._temporary.name if folder is None else folder), made_by
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(self.path)
        self._arrays, self._starts, self._done, self._checksums = [], [], None, None
        self._rows, self._time = [], time.monotonic()

    def open(self, count, starts_of):
        """Returns the kinds, arrays and missing rows of the cache, or `None`, `None` and all rows if there is no cache.

        Damaged rows count as missing, and a cache with inconsistent files counts as none. `starts_of` returns, for the
        kinds of the arrays, the positions at which rows start in each.
        """
        record = self.path / RECORD
        if not record.exists():
            others = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
            if others:
                raise ValueError(
                    "`folder` must be new, empty, or contain a cache. "
                    f"Received: folder={str(self.path)!r}, which contains {sorted(others)[:3]}"
                )
            return None, None, np.arange(count)
        try:
            stored = json.loads(record.read_text("utf-8"))
            differ = [name for name, value in self.made_by.items() if stored["made_by"].get(name) != value]
            stored["kinds"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                "`folder` must contain a cache, or be new. Delete it, or use a different one. "
                f"Received: folder={str(self.path)!r}, whose {RECORD} is damaged"
            ) from error
        if differ:
            raise ValueError(
                f"`folder` contains the cache of a different {' and '.join(differ)}. Use another folder, or delete "
                f"this one. Received: folder={str(self.path)!r}"
            )
        try:
            self._starts = starts_of(stored["kinds"])
            for mode in ("r", "r+"):  # "r" fails on a file that is too short, which "r+" would extend.
                self._arrays = [np.load(path, mmap_mode=mode) for path in self._paths(stored["kinds"])]
                self._done = np.load(self.path / DONE, mmap_mode=mode)
                self._checksums = np.load(self.path / CHECKSUMS, mmap_mode=mode)
                self._check(stored["kinds"], count)
        except Exception as error:  # The process was killed before it had created all files, or a file is damaged.
            log.warning(
                "The cache in %s is computed again, because its files are not complete or are damaged: %s",
                self.path,
                error,
            )
            return None, None, np.arange(count)
        damaged = [row for row in np.flatnonzero(self._done) if self._sums(row) != self._checksums[:, row].tolist()]
        if damaged:
            log.warning("%d of %d rows of the cache in %s are damaged.", len(damaged), count, self.path)
            self._done[damaged] = 0
        todo = np.flatnonzero(self._done == 0)
        if len(todo) > 0:
            log.info("The cache in %s has %d of %d rows. It is completed.", self.path, count - len(todo), count)
        return stored["kinds"], self._arrays, todo

    def _check(self, kinds, count):
        """Raises a `ValueError` if the arrays do not have the expected shapes and dtypes."""
        expected = [(shape_of(kind, starts), kind["dtype"]) for kind, starts in zip(kinds, self._starts)]
        expected += [((count,), "uint8"), ((len(kinds), count), "uint32")]
        found = [(array.shape, str(array.dtype)) for array in (*self._arrays, self._done, self._checksums)]
        expect(found == expected, f"Arrays must have the shapes and dtypes {expected}.", found=found)

    def _sums(self, row):
        return [zlib.crc32(array[s[row] : s[row + 1]].tobytes()) for array, s in zip(self._arrays, self._starts)]

    def create(self, kinds, starts):
        """Returns new arrays, one for each kind, whose rows start at `starts`, in the form of `starts_of`."""
        shapes, count = [shape_of(*pair) for pair in zip(kinds, starts)], len(starts[0]) - 1
        size = sum(int(np.prod(shape)) * np.dtype(kind["dtype"]).itemsize for kind, shape in zip(kinds, shapes))
        self._check_room(size, shutil.disk_usage(self.path).free)
        (self.path / DONE).unlink(missing_ok=True)
        paths, new = [*self._paths(kinds), self.path / CHECKSUMS, self.path / DONE], np.lib.format.open_memmap
        dtypes, shapes = [kind["dtype"] for kind in kinds], [*shapes, (len(kinds), count), (count,)]
        found = []
        try:
            with atomic_file(self.path / RECORD) as file:
                file.write(json.dumps({"made_by": self.made_by, "kinds": kinds}).encode())
            for path, dtype, shape in zip(paths, [*dtypes, "uint32", "uint8"], shapes):
                found.append(new(path, mode="w+", dtype=dtype, shape=shape))
                _allocate(path)
        except OSError as error:
            free = shutil.disk_usage(self.path).free
            for part in (*paths, self.path / RECORD):
                part.unlink(missing_ok=True)
            if error.errno == errno.ENOSPC:
                self._check_room(size, min(free, size - 1))
            raise
        *self._arrays, self._checksums, self._done = found  # The last one is the last file.
        self._starts = starts
        log.info("%.2f GB of activations are stored in %s", size / 1e9, self.path)
        return self._arrays

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
            for row in self._rows:
                self._checksums[:, row] = self._sums(row)
            with naming(self.path):
                for array in (*self._arrays, self._checksums) if self._rows else ():
                    array.flush()
                self._done[self._rows] = 1
                self._done.flush()
            self._rows, self._time = [], time.monotonic()
        if last:
            self._lock.release()

    def _paths(self, kinds):
        return [self.path / f"activations_{i}.npy" for i in range(len(kinds))]


def _allocate(path):
    """Reserves the disk space of a file. Otherwise, a full disk would kill the process while it writes."""
    if hasattr(os, "posix_fallocate"):  # Windows and macOS do not have it.
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, max(os.fstat(file.fileno()).st_size, 1))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # Not every file system supports this.
                    raise
