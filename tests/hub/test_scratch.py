"""What a killed process leaves in the cache is deleted by the next one, and a living process keeps its files."""

import pathlib
import subprocess
import sys

import pytest

import keras_transfer
from keras_transfer.hub import resolve
from keras_transfer.hub.cache import scratch_folder
from tests.hub.fetching import tree

fcntl = pytest.importorskip("fcntl", reason="needs locks on folders")

# Unpacks an archive into a cache and is killed in the middle. It imports no more of the package than it needs.
KILLED = """
import os, pathlib, signal, sys, types

package, archive, folder = sys.argv[1:]
for name in ("keras_transfer", "keras_transfer.hub"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{package}/{'/'.join(name.split('.')[1:])}"]
from keras_transfer.hub import cache


def unpack(file, folder, *arguments):
    (folder / "half").write_bytes(bytes(1000))
    os.kill(os.getpid(), signal.SIGKILL)


cache.unpack = unpack
cache.Cache(pathlib.Path(folder), None, 10**9).unpack(archive)
"""


def test_the_files_of_killed_processes_are_deleted_by_the_next_one(stub, archive, cache_dir):
    package = pathlib.Path(keras_transfer.__file__).parent
    for _ in range(3):
        killed = subprocess.run([sys.executable, "-c", KILLED, package, archive, cache_dir], stderr=subprocess.PIPE)
        assert killed.returncode == -9, killed.stderr
        left = [path for path in cache_dir.rglob("*") if path.is_file()]
        assert [path.name for path in left] == ["half"]
    folder = resolve(archive)
    assert tree(folder) == tree(stub)
    assert sorted(cache_dir.iterdir()) == [folder, folder.with_suffix(".descriptor.txt")]


def test_a_living_process_keeps_its_folder(tmp_path):
    with scratch_folder(tmp_path, "name") as first:
        (first / "file").touch()
        with scratch_folder(tmp_path, "name") as second:
            assert (first / "file").exists()
            assert first != second
        assert list(tmp_path.iterdir()) == [first]
    assert list(tmp_path.iterdir()) == []


def test_other_files_and_folders_stay(tmp_path):
    names = {".name-abc", ".other-abc.tmp", "name-abc.tmp"}
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / ".name-abc.tmp").mkdir()
    with scratch_folder(tmp_path, "name") as folder:
        assert {path.name for path in tmp_path.iterdir()} == {*names, folder.name}


def test_where_folders_cannot_be_locked_nothing_is_deleted(tmp_path, monkeypatch):
    def fail(descriptor, operation):
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "flock", fail)
    (tmp_path / ".name-abc.tmp").mkdir()
    with scratch_folder(tmp_path, "name") as folder:
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [".name-abc.tmp"]
