"""The files of `TrainingCheckpoint`: damage, full disks, unwritable folders, and that no undamaged file is lost."""

import contextlib
import errno
import json
import os
import pathlib
import random
import resource
import signal
import threading

import keras
import numpy as np
import pytest

from keras_transfer.core import files
from keras_transfer.training import checkpoint_files
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.training.resume.checkpoint_runs import BATCHES, Crash, assert_same, build, fit, linear, names, state, whole

ARRAYS = {
    "model/0/kernel": np.arange(12, dtype="float32").reshape(3, 4),
    "model/1/scalar": np.array(7, "int64"),
    "model/2/empty": np.zeros((0, 5), "float16"),
    "optimizer/0/flags": np.array([True, False]),
    "optimizer/1/bytes": np.arange(5, dtype="uint8"),
}
STATE = {"epoch": 1, "batch": 2, "text": "ä", "numbers": [0.1, 2**63]}


def write(folder, epoch, batch=0):
    """Writes a checkpoint that contains its epoch and batch."""
    return checkpoint_files.write(folder, epoch, batch, STATE, {**ARRAYS, "model/3/which": np.array([epoch, batch])})


def which(stored):
    return stored.read("model/3/which").tolist()


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())}


# === Writing and reading ===


def test_a_checkpoint_is_read_bit_identically(tmp_path):
    path = write(tmp_path, 1, 2)
    assert path.name == "epoch-0001-batch-000002.safetensors" and names(tmp_path) == [path.name]
    stored = checkpoint_files.read(path)
    assert stored.state == STATE
    for name, array in ARRAYS.items():
        read = stored.read(name)
        assert read.dtype == array.dtype and read.shape == array.shape and read.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", sorted(checkpoint_files.DTYPES.values()))
def test_every_supported_dtype_is_written_and_read(dtype, tmp_path):
    import ml_dtypes  # noqa: F401, with it numpy knows bfloat16

    array = np.array([0, 1, 1]).astype(dtype)
    stored = checkpoint_files.read(checkpoint_files.write(tmp_path, 0, 0, {}, {"a": array}))
    read = stored.read("a")
    assert read.dtype == array.dtype and read.tobytes() == array.tobytes()


def test_another_dtype_is_an_error_and_leaves_no_files(tmp_path):
    with pytest.raises(ValueError, match="must have one of the dtypes float16, .*Received: complex64 for a"):
        checkpoint_files.write(tmp_path, 0, 0, {}, {"a": keras.ops.ones(2, "complex64")})
    assert names(tmp_path) == []


def test_the_safetensors_package_can_read_a_checkpoint(tmp_path):
    safetensors = pytest.importorskip("safetensors", reason="needs safetensors: pip install safetensors")
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=1)
    (path,) = tmp_path.iterdir()
    stored = checkpoint_files.read(path)
    with safetensors.safe_open(path, "np") as file:
        assert set(file.keys()) == {*stored.tensors, "sha256"}
        assert json.loads(file.metadata()["state"]) == stored.state
        for name in stored.tensors:
            np.testing.assert_array_equal(file.get_tensor(name), stored.read(name))


# === Damage ===


def lengths(size, header):
    """Sizes of truncated files: in the header's length, the header, the tensors, the digest, and one byte missing."""
    tensors = (size - 32 + header) // 2
    return [0, 1, 7, 8, 31, 32, 39, 40, 100, header - 1, header, tensors, size - 33, size - 32, size - 31, size - 1]


@pytest.mark.parametrize("number", range(16))
def test_a_truncated_newest_checkpoint_is_skipped(number, tmp_path, caplog):
    write(tmp_path, 1, 0)
    path = write(tmp_path, 1, 3)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    assert 100 < header < len(whole) - 32
    path.write_bytes(whole[: lengths(len(whole), header)[number]])
    stored, damaged = checkpoint_files.newest(tmp_path)
    assert which(stored) == [1, 0] and damaged == [path] and path.exists()
    assert f"Skipping a damaged training checkpoint: {path}" in caplog.text


def mutate(content, rng):
    """Content with some bits flipped, with its end cut off, or with bytes after its end."""
    kind = rng.choice(["flip", "cut", "append"])
    if kind == "flip":
        changed = bytearray(content)
        for place in rng.sample(range(8 * len(content)), rng.choice([1, 1, 2, 8, 100])):
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)
    return content[: rng.randrange(len(content))] if kind == "cut" else content + rng.randbytes(rng.choice([1, 8, 999]))


@pytest.mark.parametrize("part", range(3))
def test_random_damage_is_found_and_changes_nothing(part, tmp_path):
    older, newer = write(tmp_path, 1), write(tmp_path, 2)
    whole = {path: path.read_bytes() for path in (older, newer)}
    for case in range(part, 300, 3):
        rng = random.Random(case)
        damaged = rng.choice([[newer], [newer], [older], [older, newer]])
        for path, content in whole.items():
            path.write_bytes(mutate(content, rng) if path in damaged else content)
        before = bytes_of(tmp_path)
        if len(damaged) == 2:
            with pytest.raises(ValueError, match="All training checkpoints in .* are damaged"):
                checkpoint_files.newest(tmp_path)
        else:
            stored, passed_over = checkpoint_files.newest(tmp_path)
            assert which(stored) == [1 if damaged == [newer] else 2, 0], case
            assert stored.state == STATE and (stored.read("model/0/kernel") == ARRAYS["model/0/kernel"]).all()
            assert passed_over == [path for path in damaged if path == newer]
        assert bytes_of(tmp_path) == before, case


@pytest.mark.parametrize("content", [b"\0" * 5000, "text" * 20])
def test_empty_files_and_files_of_another_format_are_damaged(content, tmp_path):
    write(tmp_path, 1)
    path = tmp_path / "epoch-0009-batch-000000.safetensors"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    stored, damaged = checkpoint_files.newest(tmp_path)
    assert which(stored) == [1, 0] and damaged == [path]


def test_a_folder_of_damaged_checkpoints_is_an_error_and_nothing_is_deleted(tmp_path):
    for epoch in (1, 2):
        path = write(tmp_path, epoch)
        path.write_bytes(path.read_bytes()[:-1])
    before = bytes_of(tmp_path)
    with pytest.raises(ValueError, match=r"All training checkpoints in .* are damaged.*epoch-0002.*epoch-0001"):
        fit(build(), TrainingCheckpoint(tmp_path))
    assert bytes_of(tmp_path) == before


def test_a_checkpoint_of_another_version_is_an_error_and_is_kept(tmp_path, monkeypatch):
    write(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "FORMAT", "keras_transfer checkpoint 1")
        write(tmp_path, 2)
    before = bytes_of(tmp_path)
    with pytest.raises(
        ValueError, match="different version of keras_transfer.*Received: 'keras_transfer checkpoint 1'"
    ):
        fit(build(), TrainingCheckpoint(tmp_path))
    assert bytes_of(tmp_path) == before


def test_other_files_are_left_unchanged(tmp_path):
    stray = ["notes.txt", "epoch-0009.safetensors", "epoch-0009-batch-000000.safetensors.bak", ".hidden.tmp"]
    for name in stray:
        (tmp_path / name).write_text("mine")
    folders = ["epoch-0007", "epoch-0008-batch-000000.safetensors"]
    for name in folders:
        (tmp_path / name).mkdir()
    (tmp_path / "epoch-0009-batch-000000.safetensors").symlink_to(tmp_path / "nothing")
    checkpoint_files.prepare(tmp_path)
    paths = write(tmp_path, 1), write(tmp_path, 2)
    stored, damaged = checkpoint_files.newest(tmp_path)
    checkpoint_files.prune(tmp_path, 1, damaged)
    assert which(stored) == [2, 0] and damaged == []
    assert names(tmp_path) == sorted([*stray, *folders, "epoch-0009-batch-000000.safetensors", paths[1].name])


def test_half_written_files_of_killed_processes_are_ignored_and_removed(tmp_path):
    path = write(tmp_path, 1)
    for name in (".epoch-0002-batch-000000.safetensors-0badcafe.tmp", ".epoch-0003-batch-000001.safetensors-1.tmp"):
        (tmp_path / name).write_bytes(path.read_bytes()[:-7])
    assert which(checkpoint_files.newest(tmp_path)[0]) == [1, 0]
    checkpoint_files.prepare(tmp_path)
    assert names(tmp_path) == [path.name]


def test_a_run_resumes_from_the_checkpoint_before_a_damaged_one_which_is_deleted_later(crashed, caplog):
    *_, before, newest = names(crashed)
    (crashed / newest).write_bytes((crashed / newest).read_bytes()[:1000])
    model = build()
    fit(model, TrainingCheckpoint(crashed))
    assert_same(model, whole())
    assert f"damaged training checkpoint: {crashed / newest}" in caplog.text
    assert f"Resuming from epoch 2 of 3, after batch 5: {crashed / before}" in caplog.text
    assert names(crashed) == ["epoch-0002-batch-000000.safetensors", "epoch-0003-batch-000000.safetensors"]


# === How many are kept ===


@pytest.mark.parametrize(("keep", "left"), [(1, [[3, 0]]), (3, [[2, 9], [2, 10], [3, 0]]), (9, None)])
def test_the_newest_checkpoints_by_epoch_and_batch_are_kept(keep, left, tmp_path):
    places = [[3, 0], [2, 10], [0, 4], [2, 9], [10**4, 0], [2, 1]]
    for epoch, batch in places:
        write(tmp_path, epoch, batch)
    (tmp_path / "epoch-10000-batch-000000.safetensors").write_text("damaged")
    _, damaged = checkpoint_files.newest(tmp_path)
    checkpoint_files.prune(tmp_path, keep, damaged)
    found = [which(checkpoint_files.read(path)) for path in tmp_path.iterdir()]
    assert sorted(found) == (left or sorted(place for place in places if place[0] < 10**4))


def test_a_run_keeps_the_given_number_of_checkpoints(tmp_path):
    fit(linear(), TrainingCheckpoint(tmp_path, save_every=4, keep=2))
    assert names(tmp_path) == ["epoch-0002-batch-000008.safetensors", "epoch-0003-batch-000000.safetensors"]


# === Failed writes ===


@contextlib.contextmanager
def files_of_at_most(size):
    """Limits the size of all files that this process writes, like a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:  # before pytest writes its output, which may go to a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, "one byte less"])
def test_a_file_size_limit_is_an_error_and_keeps_earlier_checkpoints(size, tmp_path):
    path = write(tmp_path, 1)
    before = bytes_of(tmp_path)
    limited = files_of_at_most(path.stat().st_size - 1 if size == "one byte less" else size)
    with limited, pytest.raises(OSError, match="Cannot write a training checkpoint into .*are unchanged") as error:
        write(tmp_path, 2)
    assert error.value.errno == errno.EFBIG and "exceed the maximum size" in str(error.value)
    assert bytes_of(tmp_path) == before


def on_full_disk(monkeypatch, after=0):
    """Redirects files to a device that is always full, after the first `after` of them."""
    opened = []

    def full(path, mode):
        opened.append(path)
        return open(path if len(opened) <= after else "/dev/full", mode if len(opened) <= after else "wb")

    monkeypatch.setattr(files, "open", full, raising=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error_and_keeps_earlier_checkpoints(tmp_path, monkeypatch):
    write(tmp_path, 1)
    before = bytes_of(tmp_path)
    on_full_disk(monkeypatch)
    for call in (lambda: write(tmp_path, 2), lambda: checkpoint_files.prepare(tmp_path)):
        with pytest.raises(OSError, match="the disk is full. Existing files are unchanged. Received:") as error:
            call()
        assert error.value.errno == errno.ENOSPC
    assert bytes_of(tmp_path) == before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_fills_up_ends_the_run_which_resumes_once_there_is_space(tmp_path, monkeypatch):
    model, checkpoint = build(), TrainingCheckpoint(tmp_path, save_every=4, keep=9)
    with monkeypatch.context() as patch:
        on_full_disk(patch, after=1 + 3)  # the first file only tests whether the folder is writable
        with pytest.raises(OSError, match="the disk is full"):
            fit(model, checkpoint)
    assert names(tmp_path) == [
        "epoch-0000-batch-000004.safetensors",
        "epoch-0000-batch-000008.safetensors",
        "epoch-0001-batch-000002.safetensors",
    ]
    # The model has the weights of the sixteenth step, and trains without the callback.
    reference = build()
    with pytest.raises(KeyError):
        fit(reference, Crash(16))
    assert_same(model, reference)
    assert len(fit(model, epochs=1)["loss"]) == 1
    again = build()
    fit(again, TrainingCheckpoint(tmp_path))
    assert_same(again, whole())


@pytest.mark.parametrize("folder", ["under a file", "/proc/none", "/proc"])
def test_an_unwritable_folder_is_an_error_before_the_first_step(folder, tmp_path):
    if folder.startswith("/proc") and not os.path.exists("/proc/self"):
        pytest.skip("needs /proc")
    (tmp_path / "file").write_text("mine")
    under = folder == "under a file"
    folder = tmp_path / "file" / "run" if under else folder
    reason = "the path is a file" if under else "the folder is not writable"
    model = build()
    before = state(model)
    with pytest.raises(OSError, match=f"Cannot write a training checkpoint into '{folder}': {reason}"):
        fit(model, TrainingCheckpoint(folder))
    assert all(np.array_equal(a, b) for a, b in zip(before, state(model)))
    assert bytes_of(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="the permissions of a folder do not bind root")
def test_a_folder_without_write_permission_is_an_error_and_keeps_its_files(tmp_path):
    write(tmp_path, 1)
    before = bytes_of(tmp_path)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(OSError, match="the folder is not writable"):
            fit(build(), TrainingCheckpoint(tmp_path))
        assert bytes_of(tmp_path) == before
    finally:
        tmp_path.chmod(0o755)


def test_a_folder_moved_during_a_run_is_an_error_and_its_checkpoints_can_be_resumed(tmp_path):
    def move(model):
        (tmp_path / "run").rename(tmp_path / "moved")
        (tmp_path / "run").write_text("in its place")

    with pytest.raises(OSError, match="the path is a file. Existing files are unchanged"):
        fit(build(), Crash(BATCHES + 5, move), TrainingCheckpoint(tmp_path / "run", save_every=3))
    assert names(tmp_path / "moved") == ["epoch-0000-batch-000009.safetensors", "epoch-0001-batch-000002.safetensors"]
    model = build()
    fit(model, TrainingCheckpoint(tmp_path / "moved"))
    assert_same(model, whole())


def test_a_failed_rename_loses_nothing(tmp_path, monkeypatch):
    # The rename fails as on a file system that became read-only.
    write(tmp_path, 1)
    before = bytes_of(tmp_path)

    def replace(old, new):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(files.os, "replace", replace)
    with pytest.raises(OSError, match="the folder is not writable"):
        write(tmp_path, 2)
    assert bytes_of(tmp_path) == before


# === Writing while training goes on ===


def hold_writes(monkeypatch):
    """Lets each training checkpoint be written only once the event that is returned is set."""
    may_write, write = threading.Event(), checkpoint_files.write

    def wait(*args):
        assert may_write.wait(600) and threading.current_thread() is not threading.main_thread()
        return write(*args)

    monkeypatch.setattr(checkpoint_files, "write", wait)
    return may_write


@pytest.mark.core
def test_training_goes_on_while_a_checkpoint_is_written_which_is_that_of_its_step(tmp_path, monkeypatch):
    fit(linear(), TrainingCheckpoint(tmp_path / "stops", save_every=8, keep=9), epochs=1)
    with monkeypatch.context() as patch:
        may_write, seen = hold_writes(patch), []

        def go_on(model):
            seen.append(names(tmp_path / "goes on"))
            may_write.set()

        checkpoint = TrainingCheckpoint(tmp_path / "goes on", save_every=8, keep=9, background=True)
        fit(linear(), checkpoint, Crash(9, go_on), epochs=1)
    assert seen == [[]]  # after a further step
    assert len(names(tmp_path / "stops")) == 1 + (keras.backend.backend() != "torch")
    assert names(tmp_path / "goes on") == names(tmp_path / "stops")
    for name in names(tmp_path / "stops"):
        ours, expected = (checkpoint_files.read(tmp_path / folder / name) for folder in ("goes on", "stops"))
        pairs = [pair for pair in zip(ours.tensors, expected.tensors, strict=True) if pair[0].startswith(("m", "o"))]
        assert len(pairs) > 5  # of the model, its optimizer and its metrics; random numbers may differ
        assert all((ours.read(first) == expected.read(second)).all() for first, second in pairs)


def test_a_write_that_fails_in_the_background_ends_the_run_and_keeps_earlier_checkpoints(tmp_path, monkeypatch, caplog):
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=1)
    before = bytes_of(tmp_path)

    def fail(*args):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(checkpoint_files, "write", fail)
    steps = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    for save_every, last in ((4, 16), (20, 20)):  # at the next checkpoint, or at the end of the run
        steps.clear()
        with pytest.raises(OSError, match="full"):
            fit(linear(), count, TrainingCheckpoint(tmp_path, save_every=save_every, background=True), epochs=2)
        assert BATCHES + len(steps) == last
    caplog.clear()
    with pytest.raises(KeyError), TrainingCheckpoint(tmp_path, save_every=4, background=True) as checkpoint:
        fit(linear(), checkpoint, Crash(13), epochs=2)
    assert "A training checkpoint was not written: [Errno 28] full" in caplog.text
    assert bytes_of(tmp_path) == before


def test_any_error_in_the_background_leaves_neither_a_locked_folder_nor_a_caught_signal(tmp_path, monkeypatch):
    def fail(*args):
        raise TypeError("no JSON")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(checkpoint_files, "write", fail)
    with pytest.raises(TypeError, match="no JSON"), TrainingCheckpoint(tmp_path, save_every=4, background=True) as one:
        fit(linear(), one, Crash(5), epochs=1)
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.undo()
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=1)
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]


def test_a_run_that_fails_ends_after_its_checkpoint_is_written(tmp_path, monkeypatch):
    may_write = hold_writes(monkeypatch)

    def fail(model):
        threading.Timer(0.5, may_write.set).start()
        raise KeyError("crash")

    checkpoint = TrainingCheckpoint(tmp_path, save_every=8, background=True)
    with pytest.raises(KeyError, match="crash"), checkpoint:
        fit(linear(), checkpoint, Crash(9, fail), epochs=1)
    assert names(tmp_path) == ["epoch-0000-batch-000008.safetensors"]
