"""A file system on which one operation fails: each open for writing, write, rename and fsync of a function in turn."""

import builtins
import contextlib
import errno
import io
import os
import pathlib
import resource
import shutil
import tempfile

import pytest


class FailingFiles:
    """Counts the operations that write below a folder, and lets the one with the number `failing` fail.

    After a write that fails, each further one to the same file fails, as on a full disk.

    Args:
        folder: Path. Operations elsewhere are not counted.
        failing: Integer. Defaults to `None`, for none.

    Attributes:
        seen: List of pairs of strings, the kinds of operations and their paths.
    """

    def __init__(self, folder, failing=None):
        self.folder, self.failing, self.seen = os.path.realpath(folder), failing, []
        self._open, self._os_open, self._descriptors = builtins.open, os.open, {}

    @contextlib.contextmanager
    def active(self):
        with pytest.MonkeyPatch.context() as patched:
            for module in (builtins, io):
                patched.setattr(module, "open", self._opened)
            patched.setattr(os, "open", self._os_opened)
            for name in ("rename", "replace"):
                patched.setattr(os, name, self._renaming(name, getattr(os, name)))
            patched.setattr(os, "mkdir", self._counting("mkdir", os.mkdir))
            patched.setattr(os, "fsync", self._syncing(os.fsync))
            patched.setattr(os, "write", self._writing(os.write))
            yield self

    def _count(self, kind, path, named=True):
        path = os.path.realpath(path)
        if not path.startswith(self.folder):
            return
        self.seen.append((kind, path))
        if len(self.seen) - 1 == self.failing:
            raise OSError(errno.ENOSPC, "No space left on device", *([path] if named else []))

    def _opened(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **options):
        if not set(mode) & set("wax+") or isinstance(file, int):
            return self._open(file, mode, buffering, encoding, errors, newline, **options)
        self._count("open", file)
        raw = _Raw(os.fspath(file), mode.replace("b", "").replace("t", ""), **options)
        raw.before_write = lambda: self._count("write", file, named=False)
        self._descriptors[raw.fileno()] = file
        buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline)

    def _os_opened(self, path, flags, *args, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._count("open", path)
        descriptor = self._os_open(path, flags, *args, **options)
        self._descriptors[descriptor] = path
        return descriptor

    def _counting(self, kind, run):
        def call(path, *args, **options):
            if not os.path.exists(path):
                self._count(kind, path)
            return run(path, *args, **options)

        return call

    def _renaming(self, kind, run):
        def call(source, target, **options):
            self._count(kind, target)
            return run(source, target, **options)

        return call

    def _syncing(self, run):
        def call(descriptor):
            self._count("fsync", self._descriptors.get(descriptor, "/"), named=False)
            return run(descriptor)

        return call

    def _writing(self, run):
        def call(descriptor, content):
            self._count("write", self._descriptors.get(descriptor, "/"), named=False)
            return run(descriptor, content)

        return call


class _Raw(io.FileIO):
    """A file to which writing may fail, after a half of what is written."""

    error = None

    def write(self, content):
        if self.error is None:
            try:
                self.before_write()
            except OSError as error:
                super().write(memoryview(content)[: len(content) // 2])
                self.error = error
        if self.error is not None:
            raise OSError(*self.error.args)
        return super().write(content)


@contextlib.contextmanager
def files_of_at_most(size):
    """Lets the operating system refuse larger files, also to libraries that write by themselves."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def content_of(folder):
    """Returns the bytes of all files in a folder, and `None` for folders, by path.

    Of the temporary files of the process, folders are left out: Keras leaves one if it cannot make the next.
    """
    paths = sorted(pathlib.Path(folder).rglob("*"))
    paths = [path for path in paths if not (path.is_dir() and "temporary" in path.parts)]
    return {path: None if path.is_dir() else path.read_bytes() for path in paths}


def check_each_failure(save, folder, target, ours=lambda path: True):
    """Lets each operation of a function fail in turn: all files are as before, and the error names the target.

    Args:
        save: Function of an integer, which writes something else for another integer, in the same way.
        folder: Path of an empty folder. The temporary files of the process are here, too.
        target: Path below `folder`, which the errors must name.
        ours: Function of the path of an operation, which says whether it fails. Defaults to each.
    """
    (folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(folder / "temporary"))
        save(0)
        before = content_of(folder)
        with FailingFiles(folder).active() as files:
            save(1)
        after, seen = content_of(folder), files.seen
        assert after != before and after.keys() == before.keys(), "The test must write other values."
        for number in _chosen(seen, ours):
            _restore(folder, before)
            with FailingFiles(folder, number).active() as files:
                try:
                    save(1)
                except OSError as error:
                    said, state = str(error), before
                else:  # Such as Keras if it cannot open a temporary file, or if a new name is not yet on the disk.
                    said, state = None, after
            where = f"Operation {number}: {files.seen[number]}"
            found = content_of(folder)
            assert found.keys() == state.keys(), f"{where}: {found.keys() ^ state.keys()}"
            changed = [path for path in found if found[path] != before[path]]
            assert bool(changed) == (said is None), f"{where}: {changed} changed"
            assert said is None or str(target) in said or files.seen[number][1] in said, f"{where}: {said}"
    return seen


def check_first_failures(save, folder, target):
    """Lets each operation of a function that writes into an empty folder fail in turn: nothing is left.

    For the arguments, see `check_each_failure`.
    """
    (folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(folder / "temporary"))
        with FailingFiles(folder).active() as files:
            save(0)
        for number in _chosen(files.seen):
            _restore(folder, {})
            with FailingFiles(folder, number).active() as failing:
                try:
                    save(0)
                except OSError as error:
                    said = str(error)
                else:
                    continue
            where = f"Operation {number}: {failing.seen[number]}"
            left = [path for path, content in content_of(folder).items() if content is not None]
            assert not left, f"{where}: {left} are left"
            assert str(target) in said or failing.seen[number][1] in said, f"{where}: {said}"


def _chosen(seen, ours=lambda path: True):
    """Returns the numbers of the operations to let fail: of the writes to a file, the first and the last."""
    writes = {}
    for number, (kind, path) in enumerate(seen):
        if kind == "write":
            writes.setdefault(path, []).append(number)
    ends = {number for numbers in writes.values() for number in (numbers[0], numbers[-1])}
    return [number for number, (kind, path) in enumerate(seen) if ours(path) and (kind != "write" or number in ends)]


def _restore(folder, content):
    for path in pathlib.Path(folder).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "temporary").mkdir()
    for path, value in content.items():
        path.mkdir() if value is None else path.write_bytes(value)
