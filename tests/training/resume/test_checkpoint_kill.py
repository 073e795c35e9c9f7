"""`TrainingCheckpoint` in killed processes: the next process resumes, and the final result is bit-identical."""

import json
import os

import keras
import numpy as np
import pytest

from tests.processes import run, shared_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts processes with each backend itself"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes"),
]

KILLED = -9
# A run has 48 steps, and a checkpoint after every third. Each process resumes from the last checkpoint and is killed at
# the next of these steps: before the first checkpoint, in each stage, and while it writes or renames a checkpoint.
KILLS = [
    {"kill": 2},
    {"kill": 7},
    {"kill": 15, "how": "writing"},
    {"kill": 24, "how": "renaming"},
    {"kill": 31},
    {"kill": 45, "how": "writing"},
]
WHOLE = {"name": "whole", "checkpoint": False}  # uninterrupted


def runs(folder, *options, backend="tensorflow"):
    """Runs processes one after another. Results are `NAME.npz` in the folder, and checkpoints are in `NAME`."""
    # XLA compiles twice as fast without optimization, and each program once.
    environment = {"KERAS_BACKEND": backend, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    environment |= shared_programs(folder / "programs")
    return run("-m", "tests.training.resume.checkpoint_child", folder, json.dumps(options), **environment)


def assert_equal(folder, name):
    """Asserts that the result of a run is bit-identical to that of the whole run."""
    ours, theirs = np.load(folder / f"{name}.npz"), np.load(folder / "whole.npz")
    assert len(ours.files) > 20 and ours.files == theirs.files
    assert [key for key in ours.files if not np.array_equal(ours[key], theirs[key])] == []


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A folder and the results of all processes on TensorFlow: a whole run, a killed one, one that gets SIGTERM."""
    folder = tmp_path_factory.mktemp("killed")
    stopped = {"name": "stopped"}
    return folder, runs(folder, WHOLE, *KILLS, {}, {**stopped, "term": 17}, stopped)


def test_a_run_killed_at_six_steps_ends_with_bit_identical_weights_and_slots(ended):
    folder, (whole, *killed, last, _, _) = ended
    assert whole["code"] == 0 and [end["code"] for end in killed] == [KILLED] * len(KILLS), killed
    assert [end["half_written"] for end in killed] == [int("how" in kill) for kill in KILLS]
    assert last["code"] == 0 and "Resuming from epoch" in last["log"] and last["report"]["stopped_by"] is None
    assert_equal(folder, "killed")
    assert sorted(path.name for path in (folder / "killed").iterdir()) == [
        "epoch-0003-batch-000009.safetensors",
        "epoch-0004-batch-000000.safetensors",
    ]


def test_a_run_that_gets_sigterm_writes_a_checkpoint_exits_with_status_0_and_resumes(ended):
    folder, (*_, stopped, last) = ended
    assert stopped["code"] == 0 and stopped["report"]["stopped_by"] == "SIGTERM"
    assert stopped["log"].count("SIGTERM: the run stops") == 1
    assert last["code"] == 0 and "Resuming from epoch 2 of 4, after batch 5" in last["log"]
    assert_equal(folder, "stopped")


@pytest.mark.parametrize(("backend", "kills"), [("jax", [20]), ("torch", [20])])
def test_a_killed_run_on_another_backend_ends_bit_identically(backend, kills, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    whole, *killed, last = runs(tmp_path, WHOLE, *({"kill": step} for step in kills), {}, backend=backend)
    assert [end["code"] for end in (whole, *killed, last)] == [0, *[KILLED] * len(kills), 0], last
    assert "Resuming from epoch" in last["log"]
    assert_equal(tmp_path, "killed")
