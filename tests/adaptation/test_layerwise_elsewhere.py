"""`LayerwiseOptimizer` on the other backends, and on several devices, each in a process of its own."""

import keras
import pytest

from tests.processes import run

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="starts the other backends")


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "late"), [("jax", 2000), ("torch", 500)])
def test_another_backend_trains_pulls_starts_late_and_saves_the_same(backend, late, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    report = run("-m", "tests.adaptation.layerwise_child", tmp_path, late, KERAS_BACKEND=backend)
    assert report["backend"] == backend
    for kind, (apart_by, moved) in report["parity"].items():
        assert apart_by < 3e-6 < 1e-5 < moved, kind  # torch's own kinds round in another order
    for kind, (apart_by, pulled_by) in report["pull"].items():
        assert apart_by < 1e-6 < 1e-4 < pulled_by, kind
    for kind, (apart_by, moved) in report["saved"].items():
        assert apart_by == 0 and moved > 1e-3, kind
    lengths, counts = report["late"]["True"]
    assert max(lengths) <= 1.05 and max(report["late"]["False"][0]) > 1.5
    assert counts == {"low": 40, "norm": 40, "mid": late + 40, "top": late + 40}


@pytest.mark.slow
def test_two_replicas_train_as_one_device_does():
    report = run("-m", "tests.adaptation.layerwise_child", "mirrored")
    assert report["replicas"] == 2
    for kind, (apart_by, moved, counts) in report["kinds"].items():
        assert apart_by < 1e-6 < 1e-4 < moved, kind
        assert counts == ([12, 16, 20, 24] if kind == "thawed" else [24] * 4), kind
