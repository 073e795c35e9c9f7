"""Random kills: a few of them, their table, and that an interrupted series goes on."""

import json

import keras
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def kills(tool):
    """The module `kills`."""
    return tool("kills")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts processes with each backend itself")
def test_killed_runs_end_as_a_whole_one_and_the_same_command_continues(kills, tmp_path, capsys):
    results = tmp_path / "kills.jsonl"
    command = ["--backends", "tensorflow", "--results", str(results), "--most", "2", "--seconds", "1200"]
    assert kills.main([*command, "--kills", "2"]) == 0
    chains = [json.loads(line) for line in results.read_text().splitlines()]
    assert sum(len(chain["kills"]) for chain in chains) >= 2 and {chain["end"] for chain in chains} == {"equal"}
    table = capsys.readouterr().out.splitlines()[-1].split()
    assert table[:3] == ["all", str(len(chains)), str(sum(len(chain["kills"]) for chain in chains))]

    whole = results.read_text()
    results.write_text(whole + '{"chain": "0/9')  # the driver was killed
    assert kills.main([*command, "--kills", "1"]) == 0
    assert results.read_text() == whole


def test_an_end_that_differs_is_listed_and_is_the_exit_code(kills, tmp_path, monkeypatch, capsys):
    ends = iter(["equal", "different", "failed"])
    chain = [{"writing": True}, {"writing": False}]
    monkeypatch.setattr(kills, "run_chain", lambda *arguments: {"kills": chain, "end": next(ends), "log": "why"})
    monkeypatch.setattr(kills, "Trainer", Idle)
    assert kills.main(["--kills", "6", "--backends", "jax"]) == 1
    output = capsys.readouterr().out
    assert ["all", "3", "6", "3", "(50%)", "1"] in [line.split() for line in output.splitlines()]
    assert "0/1: different: jax, letters, gradual, l2sp, averages\nwhy" in output and "0/2: failed" in output


class Idle:
    """Stands in for a training process."""

    def __init__(self, backend, folder):
        pass

    def stop(self):
        pass
