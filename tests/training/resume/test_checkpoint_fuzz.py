"""Training checkpoints that were flipped, cut or appended to: the newest intact one is used, or there is one error."""

import random

import numpy as np
import pytest

from keras_transfer.training.resume import TrainingCheckpoint, checkpoint_files
from tests.training.resume.checkpoint_runs import assert_same, crash, fit, linear

CASES = 300


def mutate(content, rng):
    """Content with some bits flipped, with its end cut off, or with bytes after its end."""
    kind = rng.choice(["flip", "cut", "append"])
    if kind == "flip":
        changed = bytearray(content)
        for place in rng.sample(range(8 * len(content)), rng.choice([1, 1, 2, 8, 100])):
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)
    if kind == "cut":
        return content[: rng.randrange(len(content))]
    return content + rng.randbytes(rng.choice([1, 8, 32, 1000]))


def write(folder, epoch):
    variables = {"model/0/kernel": np.full((3, 4), epoch, "float32"), "optimizer/0/iteration": np.array(epoch)}
    return checkpoint_files.write(folder, epoch, 0, {"epoch": epoch, "text": "ä"}, variables)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("part", range(3))
def test_damage_is_found_and_changes_nothing(part, tmp_path):
    older, newer = write(tmp_path, 1), write(tmp_path, 2)
    whole = {path: path.read_bytes() for path in (older, newer)}
    for case in range(part, CASES, 3):
        rng = random.Random(case)
        damaged = rng.choice([[newer], [newer], [older], [older, newer]])
        for path, content in whole.items():
            path.write_bytes(mutate(content, rng) if path in damaged else content)
        before = contents(tmp_path)
        if len(damaged) == 2:
            with pytest.raises(ValueError, match="All training checkpoints in .* are damaged"):
                checkpoint_files.newest(tmp_path)
        else:
            stored, passed_over = checkpoint_files.newest(tmp_path)
            expected = 1 if damaged == [newer] else 2
            assert (stored.path, stored.state["epoch"]) == ((older, newer)[expected - 1], expected), case
            assert stored.read("model/0/kernel").tolist() == [[expected] * 4] * 3
            assert stored.read("optimizer/0/iteration") == expected
            assert passed_over == [path for path in damaged if path == newer]
        assert contents(tmp_path) == before, case


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """The contents of the folder of a run that crashed at step 5, with checkpoints after steps 2 and 4."""
    folder = tmp_path_factory.mktemp("crashed")
    crash(folder, 5, save_every=2, make=linear, epochs=1)
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("case", range(3))
def test_a_run_resumes_from_the_older_one_and_removes_the_damaged_one(case, crashed, tmp_path):
    older, newer = sorted(crashed)
    (tmp_path / older).write_bytes(crashed[older])
    (tmp_path / newer).write_bytes(mutate(crashed[newer], random.Random(case)))
    whole, model = linear(), linear()
    fit(whole, epochs=1)
    fit(model, TrainingCheckpoint(tmp_path, keep=9), epochs=1)
    assert_same(model, whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == [older, "epoch-0001-batch-000000.safetensors"]


def test_what_is_no_file_is_no_training_checkpoint(tmp_path):
    write(tmp_path, 1)
    (tmp_path / "epoch-0002-batch-000000.safetensors").mkdir()
    (tmp_path / "epoch-0003-batch-000000.safetensors").symlink_to(tmp_path / "nothing")
    stored, damaged = checkpoint_files.newest(tmp_path)
    assert stored.state["epoch"] == 1 and damaged == []
