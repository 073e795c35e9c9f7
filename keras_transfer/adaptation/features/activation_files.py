"""The storage of activations: in memory, or in a folder of memory-mapped files that a killed process can resume."""

import errno
import json
import logging
import os
import pathlib
import shutil
import tempfile
import time
import zlib

import numpy as np

from keras_transfer.files import atomic_file, naming
from keras_transfer.folder_lock import lock_folder

log = logging.getLogger("keras_transfer")

RECORD, DONE, CHECKSUMS = "cache.json", "done.npy", "checksums.npy"
INTERVAL = 5.0  # Number of seconds between two points from which a killed process resumes.


def shape_of(kind, starts):
    """Returns the shape of an array.

    Args:
        kind: Dict of JSON values with the `"shape"` of a value.
        starts: Integer array. Positions at which rows start, and the end of the last row.
    """
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

    `cache.json` describes the contents of the arrays. `done.npy` has a 1 for each row whose values are in the files,
    and `checksums.npy` has the checksums `[arrays, rows]` of these values.

    Args:
        made_by: Dict of strings that describe what the values depend on.
        folder: Path. Defaults to `None`, which creates a temporary folder that exists as long as this object.
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

        Damaged rows count as missing, and a cache with inconsistent files counts as none.

        Args:
            count: Integer. Number of rows.
            starts_of: Function that returns, for the kinds of the arrays, the positions at which rows start in each.
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
        if found != expected:
            raise ValueError(f"Arrays must have the shapes and dtypes {expected}. Received: {found}")

    def _sums(self, row):
        return [zlib.crc32(array[s[row] : s[row + 1]].tobytes()) for array, s in zip(self._arrays, self._starts)]

    def create(self, kinds, starts):
        """Returns new arrays.

        Args:
            kinds: List of dicts of JSON values, one for each array, with its `"dtype"`.
            starts: List of integer arrays, in the form that `starts_of` in `open` returns.
        """
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
