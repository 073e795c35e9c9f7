"""The example that trains with Ray Train, in two processes of this machine."""

import os
import re
import subprocess
import sys

import keras
import pytest

from tests.pages import REPOSITORY

LIMIT_SECONDS = 1200  # on a busy machine


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_ray_trains_a_classifier_in_two_processes(backend, tmp_path, small_package):
    pytest.importorskip("ray.train", reason='needs Ray Train: pip install "ray[train]"')
    pytest.importorskip(backend)
    path = os.pathsep.join([str(small_package), str(REPOSITORY)])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1"}
    environment |= {"HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    environment["RAY_worker_register_timeout_seconds"] = str(LIMIT_SECONDS)
    environment["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(LIMIT_SECONDS)
    output = tmp_path / "classifier.keras"
    command = [sys.executable, REPOSITORY / "examples" / "train_ray.py", "--workers", "2", "--texts", "40"]
    command += ["--batch-size", "16", "--epochs", "1", "--output", output]
    for _ in range(10):  # Ray gives up if its own processes need more than 30 seconds to start.
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if "timed out during startup" not in found.stderr:
            break
    assert found.returncode == 0, f"{found.stdout[-4000:]}\n{found.stderr[-8000:]}"
    losses = dict(re.findall(r"process (\d) of 2: loss (\d+\.\d{6})", found.stdout))
    assert sorted(losses) == ["0", "1"] and losses["0"] == losses["1"]
    assert len(keras.saving.load_model(output).predict_labels(["Who wrote Hamlet?"])) == 1
