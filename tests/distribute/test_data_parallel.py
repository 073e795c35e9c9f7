"""Two devices of `keras.distribution.DataParallel` on JAX learn and answer what one does."""

import pytest

from tests.processes import run


@pytest.fixture(scope="module")
def report():
    """What one device and two did in a process with two CPU devices."""
    pytest.importorskip("jax", reason="needs JAX: pip install jax")
    flags = "--xla_force_host_platform_device_count=2"
    found = run("-m", "tests.distribute.data_parallel", KERAS_BACKEND="jax", XLA_FLAGS=flags)
    assert (found["backend"], found["devices"]) == ("jax", 2)
    return found


@pytest.mark.slow
def test_two_devices_learn_in_50_steps_what_one_learns(report):
    assert report["steps"] == 50
    assert report["difference"] < 1e-5 < 1e-2 < report["moved"]


@pytest.mark.slow
def test_a_batch_that_the_devices_cannot_share_evenly_is_filled_up_in_fit_and_predict(report):
    assert report["logits"] < 1e-6
    assert report["short"] < 1e-6


@pytest.mark.slow
def test_evaluate_takes_what_the_devices_can_share_evenly_and_nothing_else(report):
    assert report["evaluated"] < 1e-6
    assert report["error"] == "to evaluate with 2 replicas takes a multiple of 2 texts. Received: 33"


@pytest.mark.slow
def test_a_model_whose_distribution_is_gone_is_an_error(report):
    for method, message in report["gone"].items():
        assert message and message.endswith("weights on 2 devices, and no distribution"), method


@pytest.mark.slow
def test_two_devices_learn_in_mixed_float16(report):
    found = report["float16"]
    losses = found.pop("losses")
    assert losses[-1] < 0.5 * losses[0]
    assert found == {
        "optimizer": "LossScaleOptimizer",
        "block": "float16",
        "weights": ["float32"],
        "logits": "float32",
    }
