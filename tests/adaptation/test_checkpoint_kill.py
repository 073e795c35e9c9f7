"""`Checkpoint` in processes that are killed on the way: each next one goes on, and the end is the same to the bit."""

import json
import os
import random
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.processes import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts processes with each backend itself"),
]

STEPS = 48  # four epochs of twelve; a checkpoint after every third
KILLED = -9
# In one chain: each process goes on from the last checkpoint, and is killed at the next of these. A checkpoint is
# written at a multiple of 3; some are killed in the middle of that.
KILLS = [(step, "after the step") for step in sorted(random.Random(5).sample(range(2, STEPS), 10))]
for number, how in ((2, "writing"), (5, "renaming"), (8, "writing")):
    KILLS[number] = (KILLS[number][0] // 3 * 3, how)


def start(folder, name, backend="tensorflow", **options):
    """Starts a process; its result is `folder/name.npz`, its checkpoints are in `folder/name`."""
    paths = [folder / name, folder / f"{name}.npz"]
    command = [sys.executable, "-m", "tests.adaptation.checkpoint_child", *map(str, paths), json.dumps(options)]
    # XLA compiles twice as fast without optimising.
    environment = {**os.environ, "KERAS_BACKEND": backend, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process, code=0):
    """Waits for a process's end with this exit code, and returns what it printed and logged."""
    out, err = process.communicate()
    assert process.returncode == code, err[-4000:]
    return (json.loads(out.splitlines()[-1]) if code == 0 else None), err


def run(*arguments, code=0, **options):
    return end(start(*arguments, **options), code)


def assert_equal(folder, name, expected):
    ours, theirs = np.load(folder / f"{name}.npz"), np.load(folder / f"{expected}.npz")
    assert len(ours.files) > 40 and ours.files == theirs.files
    assert [key for key in ours.files if not np.array_equal(ours[key], theirs[key])] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder where `whole.npz` is the end of a run of TensorFlow's that nothing interrupted, without checkpoints."""
    folder = tmp_path_factory.mktemp("killed")
    run(folder, "whole", checkpoint=False)
    return folder


def test_a_run_killed_at_ten_steps_ends_with_the_same_weights_and_slots_to_the_bit(folder):
    assert len({step for step, _ in KILLS}) == 10 and [step for step, _ in KILLS] == sorted(s for s, _ in KILLS)
    half_written = 0
    for step, how in KILLS:
        run(folder, "killed", code=KILLED, kill=step, how=how)
        half_written += len(list((folder / "killed").glob(".*.tmp")))
    assert half_written == 3
    report, log = run(folder, "killed")
    assert "resuming from epoch" in log and report["stopped_by"] is None
    assert_equal(folder, "killed", "whole")
    assert sorted(path.name for path in (folder / "killed").iterdir()) == [
        "epoch-0003-batch-000012.safetensors",
        "epoch-0004-batch-000000.safetensors",
    ]


def test_a_run_that_gets_sigterm_writes_a_checkpoint_ends_well_and_goes_on(folder):
    report, log = run(folder, "stopped", term=17)
    assert report["stopped_by"] == "SIGTERM" and log.count("SIGTERM: the run stops") == 1
    assert (folder / "stopped" / "epoch-0001-batch-000005.safetensors").exists()
    report, log = run(folder, "stopped")
    assert "resuming from epoch 2 of 4, after batch 5" in log
    assert_equal(folder, "stopped", "whole")


@pytest.mark.parametrize(("backend", "kills"), [("jax", [8, 29]), ("torch", [20])])
def test_so_does_another_backend(backend, kills, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    whole = start(tmp_path, "whole", backend, checkpoint=False)  # beside the others
    for step in kills:
        run(tmp_path, "killed", backend, code=KILLED, kill=step)
    _, log = run(tmp_path, "killed", backend)
    assert "resuming from epoch" in log
    end(whole)
    assert_equal(tmp_path, "killed", "whole")
