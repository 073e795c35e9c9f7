"""The comparison of devices and processes: one of them, and that a difference is the exit status."""

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def devices(tool):
    """The module `devices`."""
    return tool("devices")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts processes with each backend itself")
def test_eight_devices_train_a_classifier_like_one_and_the_same_command_trains_nothing_again(devices, tmp_path, capfd):
    command = ["--output", str(tmp_path), "--setups", "jax", "jax-devices", "--tasks", "classifier", "--steps", "5"]
    assert devices.main(command) == 0
    printed = capfd.readouterr().out
    assert "jax-devices: classifier: moved" in printed
    assert "jax-devices: classifier: largest differences: weight" in printed
    assert devices.main(command) == 0
    assert "classifier: moved" not in capfd.readouterr().out


@pytest.fixture
def compared(devices, tmp_path, monkeypatch):
    """Returns a function that compares two weights of zeros with others, and returns the exit status."""

    def compare(others, *, moved=0.5, steps=50, options=()):
        def run(setup, args):
            (tmp_path / setup).mkdir()
            weights = others if setup == "jax-devices" else [0.0, 0.0]
            np.savez(tmp_path / setup / "causal.npz", **{"weight 0": weights, "moved": moved, "steps": steps})

        monkeypatch.setattr(devices, "run", run)
        command = ["--output", str(tmp_path), "--setups", "jax", "jax-devices", "--tasks", "causal"]
        return devices.main([*command, *options])

    return compare


@pytest.mark.parametrize(
    ("others", "moved", "status", "shown"),
    [
        ([0.0, 1e-6], 0.5, 0, "weight 1.0e-06 (weights moved by 0.5)"),
        ([0.0, 1e-3], 0.5, 1, "weight 1.0e-03 (weights moved by 0.5)"),
        ([np.nan, 0.0], 0.5, 1, "weight nan (weights moved by 0.5)"),
        ([0.0, 0.0], 0.0, 1, "weight 0.0e+00 (weights moved by 0)"),
        ([0.0, 0.0], np.nan, 1, "weight 0.0e+00 (weights moved by nan)"),
        ([0.0, 0.0], np.inf, 1, "weight 0.0e+00 (weights moved by inf)"),
    ],
)
def test_weights_that_differ_or_do_not_move_are_the_exit_status(compared, capsys, others, moved, status, shown):
    assert compared(others, moved=moved) == status
    assert f"jax-devices: causal: largest differences: {shown}" in capsys.readouterr().out
