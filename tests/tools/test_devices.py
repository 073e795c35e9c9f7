"""The comparison of devices and processes: one of them, and that a difference is the exit status."""

import pathlib

import keras
import numpy as np
import pytest

TOOLS = pathlib.Path(__file__).parents[2] / "tools"


@pytest.fixture
def devices(monkeypatch):
    """The module `devices`."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import devices

    return devices


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts processes with each backend itself")
def test_eight_devices_train_a_classifier_like_one_and_the_same_command_trains_nothing_again(
    devices, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(TOOLS.parent))
    command = ["--output", str(tmp_path), "--setups", "jax", "jax-devices", "--tasks", "classifier", "--steps", "5"]
    assert devices.main(command) == 0
    printed = capfd.readouterr().out
    assert "jax-devices: classifier: moved" in printed
    assert "jax-devices: classifier: largest differences: weight" in printed
    assert devices.main(command) == 0
    assert "classifier: moved" not in capfd.readouterr().out


def test_weights_that_differ_are_the_exit_status(devices, tmp_path, monkeypatch, capsys):
    def run(setup, args):
        (tmp_path / setup).mkdir()
        weights = np.full(3, 0.001 * (setup == "jax-devices"))
        np.savez(tmp_path / setup / "causal.npz", **{"weight 0": weights, "moved": 0.5})

    monkeypatch.setattr(devices, "run", run)
    assert devices.main(["--output", str(tmp_path), "--setups", "jax", "jax-devices", "--tasks", "causal"]) == 1
    found = "jax-devices: causal: largest differences: weight 1.0e-03 (weights moved by 0.5)"
    assert found in capsys.readouterr().out
