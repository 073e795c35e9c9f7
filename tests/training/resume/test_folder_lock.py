"""`TrainingCheckpoint`: one process at a time uses a folder."""

import contextlib
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys

import keras
import pytest

from keras_transfer.core import folder_lock
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.training.resume.checkpoint_runs import assert_same, crash, fit, linear, names

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks files as POSIX systems do")

# A process that locks a folder, without the rest of the package. It ends when its input does, or forks first.
OTHER = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("folder_lock", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
lock = module.lock_folder(sys.argv[2])
reads, writes = os.pipe()
child = os.fork() if "fork" in sys.argv else None
if child == 0:
    os.write(writes, b"!")  # now its files are closed
else:
    child and os.read(reads, 1)
    print(json.dumps([os.getpid(), child]), flush=True)
sys.stdin.read()
os._exit(0)
"""


@contextlib.contextmanager
def other_process(folder, *options):
    """A process that has locked a folder, and its id."""
    command = [sys.executable, "-c", OTHER, folder_lock.__file__, str(folder), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def test_a_folder_that_another_process_uses_is_an_error_that_names_it_and_leaves_its_files(tmp_path):
    half = tmp_path / ".epoch-0001-batch-000000.safetensors-0badcafe.tmp"
    half.write_bytes(b"half")
    before = sorted(os.listdir(tmp_path))
    with other_process(tmp_path) as (_, (process_id, _)):
        with pytest.raises(RuntimeError, match=rf"Only one process .*Received: .*, in use by process {process_id} on "):
            fit(linear(), TrainingCheckpoint(tmp_path))
        assert sorted(os.listdir(tmp_path)) == sorted([*before, ".lock"])


def test_the_lock_of_a_killed_process_is_taken_over_and_the_run_resumes(tmp_path):
    crash(tmp_path, 4, make=linear, epochs=1)
    folder_lock.lock_folder(tmp_path).release()
    with other_process(tmp_path) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert ".lock" in os.listdir(tmp_path)
        model, expected = linear(), linear()
        fit(model, TrainingCheckpoint(tmp_path), epochs=1)
    fit(expected, epochs=1)
    assert_same(model, expected)
    assert ".lock" not in os.listdir(tmp_path)


def test_a_forked_child_does_not_keep_the_lock_of_its_parent(tmp_path):
    with other_process(tmp_path, "fork") as (process, (_, child)):
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(child, 0)  # is alive
        folder_lock.lock_folder(tmp_path).release()
    assert names(tmp_path) == []


def test_the_lock_of_a_run_that_failed_goes_to_the_next_run_of_the_process(tmp_path):
    crash(tmp_path, 5, make=linear)
    held = folder_lock.lock_folder(tmp_path)
    assert folder_lock.lock_folder(f"{tmp_path}/../{tmp_path.name}") is held
    assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    held.release()
    assert not held.release.alive and ".lock" not in os.listdir(tmp_path)
    again = folder_lock.lock_folder(tmp_path)
    assert again is not held
    del again  # nothing refers to it
    assert ".lock" not in os.listdir(tmp_path)


def test_a_lock_that_is_removed_while_it_is_waited_for_is_made_again(tmp_path, monkeypatch):
    lock, calls = folder_lock._lock, []

    def remove_first(file, folder):
        lock(file, folder)
        calls.append(file)
        if len(calls) == 1:  # as its owner does when it ends, after this process has opened it
            os.unlink(tmp_path / ".lock")

    monkeypatch.setattr(folder_lock, "_lock", remove_first)
    held = folder_lock.lock_folder(tmp_path)
    assert len(calls) == 2 and os.path.samestat(os.fstat(held.file), os.stat(tmp_path / ".lock"))
    held.release()


def test_without_locks_in_the_file_system_it_warns_and_goes_on(tmp_path, monkeypatch, caplog):
    import fcntl

    def flock(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    folder_lock.lock_folder(tmp_path).release()
    assert f"Make sure that only one process uses {tmp_path}" in caplog.text


def test_a_checkpoint_of_another_run_in_the_folder_leaves_no_lock(tmp_path):
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=1)
    with pytest.raises(ValueError, match="To resume a run, use the same model"):
        fit(linear(keras.optimizers.Adam()), TrainingCheckpoint(tmp_path))
    assert ".lock" not in os.listdir(pathlib.Path(tmp_path))
