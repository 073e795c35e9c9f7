"""Where activations are stored: in memory, or in a folder of memory-mapped files that a killed process can resume."""

import errno
import json
import logging
import pathlib
import shutil
import tempfile
import time

import numpy as np

from keras_transfer.files import atomic_file
from keras_transfer.training.folder_lock import lock_folder

log = logging.getLogger("keras_transfer")

RECORD, DONE = "cache.json", "done.npy"
INTERVAL = 5.0  # Seconds between two points from which a killed process resumes.


class Memory:
    """Arrays in memory, with the methods of `CacheFolder`."""

    def open(self, count):
        return None, None, np.arange(count)

    def create(self, kinds, shapes, count):
        return [np.empty(shape, kind["dtype"]) for kind, shape in zip(kinds, shapes)]

    def finish(self, rows, last=False):
        pass


class CacheFolder:
    """Arrays in files.

    `cache.json` describes the contents of the arrays. `done.npy` has a 1 for each row whose values are in the files.

    Args:
        made_by: Dict of strings that describe what the values depend on.
        folder: Path. Defaults to `None`, which creates a temporary folder that exists as long as this object.

    Raises:
        ValueError: If the folder holds other files, or values that depend on something else.
        RuntimeError: If another process writes into the folder.
    """

    def __init__(self, made_by, folder=None):
        self._temporary = tempfile.TemporaryDirectory(prefix="keras_transfer-") if folder is None else None
        self.path, self.made_by = pathlib.Path(self._temporary.name if folder is None else folder), made_by
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(self.path)
        self._arrays, self._done, self._rows, self._time = [], None, [], time.monotonic()

    def open(self, count):
        """Returns the kinds, arrays and missing rows of the cache, or None, None and all rows if there is no cache.

        Args:
            count: Integer. Number of rows.
        """
        record = self.path / RECORD
        if not record.exists():
            others = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
            if others:
                raise ValueError(
                    "`folder` must be new, empty, or hold a cache. "
                    f"Received: folder={str(self.path)!r}, which holds {sorted(others)[:3]}"
                )
            return None, None, np.arange(count)
        try:
            stored = json.loads(record.read_text("utf-8"))
            differ = [name for name, value in self.made_by.items() if stored["made_by"].get(name) != value]
            stored["kinds"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"`folder` must hold a cache, or be new. Received: folder={str(self.path)!r}, whose {RECORD} is damaged"
            ) from error
        if differ:
            raise ValueError(
                f"`folder` holds the cache of another {' and '.join(differ)}. Use another folder, or delete this one. "
                f"Received: folder={str(self.path)!r}"
            )
        try:
            for mode in ("r", "r+"):  # "r" fails on a file that is too short, which "r+" would extend.
                self._arrays = [np.load(path, mmap_mode=mode) for path in self._paths(stored["kinds"])]
                self._done = np.load(self.path / DONE, mmap_mode=mode)
        except (OSError, ValueError) as error:  # The process was killed before it had created all files.
            log.warning("The cache in %s is computed again, because its files are not complete: %s", self.path, error)
            return None, None, np.arange(count)
        todo = np.flatnonzero(self._done == 0)
        if len(todo) > 0:
            log.info("The cache in %s has %d of %d rows. It is completed.", self.path, count - len(todo), count)
        return stored["kinds"], self._arrays, todo

    def create(self, kinds, shapes, count):
        """Returns new arrays.

        Args:
            kinds: List of dicts of JSON values, one for each array, with its `"dtype"`.
            shapes: List of tuples, the shapes of the arrays.
            count: Integer. Number of rows.
        """
        size = sum(int(np.prod(shape)) * np.dtype(kind["dtype"]).itemsize for kind, shape in zip(kinds, shapes))
        free = shutil.disk_usage(self.path).free
        if size > free:
            raise OSError(
                errno.ENOSPC,
                f"The activations need {size / 1e9:.2f} GB. Use `dtype='float16'`, or a folder with more room. "
                f"Received: {free / 1e9:.2f} GB free in {str(self.path)!r}",
            )
        (self.path / DONE).unlink(missing_ok=True)
        with atomic_file(self.path / RECORD) as file:
            file.write(json.dumps({"made_by": self.made_by, "kinds": kinds}).encode())
        new = np.lib.format.open_memmap
        self._arrays = [
            new(path, mode="w+", dtype=kind["dtype"], shape=shape)
            for path, kind, shape in zip(self._paths(kinds), kinds, shapes)
        ]
        self._done = new(self.path / DONE, mode="w+", dtype="uint8", shape=(count,))  # This is the last file.
        log.info("%.2f GB of activations are stored in %s", size / 1e9, self.path)
        return self._arrays

    def finish(self, rows, last=False):
        """Records that the values of rows are stored. They are flushed to disk before this is recorded."""
        self._rows.extend(rows)
        if last or time.monotonic() - self._time >= INTERVAL:
            for array in self._arrays if self._rows else ():
                array.flush()
            self._done[self._rows] = 1
            self._done.flush()
            self._rows, self._time = [], time.monotonic()
        if last:
            self._lock.release()

    def _paths(self, kinds):
        return [self.path / f"activations_{i}.npy" for i in range(len(kinds))]
