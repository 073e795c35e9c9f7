"""Kills of one of two processes: what counts as a clear end, and that an interrupted series goes on."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest


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


def test_the_same_command_goes_on_after_the_kills_in_the_results(kills, tmp_path, monkeypatch, capsys):
    results = tmp_path / "kills.jsonl"
    monkeypatch.setattr(kills, "launch", launches())
    for count, chains in ((4, 1), (4, 1), (8, 2)):
        assert kills.main(["--kills", str(count), "--backends", "tensorflow", "--results", str(results)]) == 0
        assert f"tensorflow: {count} kills in {chains} chains, {chains} equal" in capsys.readouterr().out
        assert len(results.read_text().splitlines()) == chains
        with results.open("a") as file:
            file.write('{"backend": "tens')  # the driver was killed


def test_a_launch_that_does_not_end_in_time_has_no_exit_status(kills, tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "LIMIT", 0.01)  # Python needs longer to import Keras.
    status, output = kills.launch("jax", tmp_path, "none", "0", "1")
    assert status is None and output.endswith("The processes did not end in 0.01 seconds.")


def test_the_processes_of_a_launcher_end_with_it(kills):
    worker = "import time; print('started', flush=True); time.sleep(600)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}], start_new_session=True)"
    launcher = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout.readline() == "started\n"
    kills.end(launcher)
    assert launcher.communicate(timeout=60) == ("", None)  # The output ends when the last process has.
