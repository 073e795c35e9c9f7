"""Kills of one of two processes: what counts as a clear end, and that an interrupted series goes on."""

import json
import time

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def kills(tool):
    """The module `process_kills`."""
    return tool("process_kills")


def launches(*, message="keras-transfer launch: process {} was ended by SIGKILL", end=0.0, status=137):
    """Stands in for `launch`: every process that is to die does so, and the run ends with these weights."""

    def launch(backend, folder, dies, seconds, epochs):
        folder.mkdir(exist_ok=True)
        if dies != "none":
            return status, f"[{dies}] killed at {time.time()}\n{message.format(dies)}"
        np.savez(folder / "weights.npz", np.full(2, end if folder.name == "killed" else 0.0))
        return 0, "[0] trained in 3.0 seconds"

    return launch


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({}, "equal"),
        ({"end": 1e-7}, "different"),
        ({"message": "process {} hangs"}, "failed"),
        ({"status": None}, "failed"),
    ],
)
def test_a_launch_must_name_the_killed_process_and_the_end_must_be_equal(kills, tmp_path, monkeypatch, options, end):
    results = tmp_path / "kills.jsonl"
    monkeypatch.setattr(kills, "launch", launches(**options))
    status = kills.main(["--kills", "1", "--backends", "jax", "--results", str(results)])
    chains = [json.loads(line) for line in results.read_text().splitlines()]
    assert (chains[0]["end"], status) == (end, int(end != "equal"))
