"""Replicas train rows of several texts: each has whole rows."""

import contextlib

import keras
import pytest


@pytest.fixture(scope="module")
def report(tensorflow_process):
    return tensorflow_process("tests.distribute.embedders:main")


def test_two_replicas_take_the_step_of_one_device_for_a_loss_of_single_rows(report):
    found = report["cosine"]
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]
    assert found["evaluate"][0] == pytest.approx(found["evaluate"][1], abs=1e-6)
    assert found["vectors"] < 1e-6


def test_each_replica_ranks_its_own_rows(report):
    found = report["ranking"]
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]


@contextlib.contextmanager
def two_devices():
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    try:
        yield
    finally:
        keras.distribution.set_distribution(None)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution.DataParallel is JAX's")
def test_devices_of_jax_rank_all_rows_of_a_batch_and_refuse_rows_that_they_would_repeat():
    from keras_transfer.losses import MultipleNegativesRankingLoss
    from tests.distribute.embedders import FIRST, SECOND, embedder
    from tests.tasks.tiny import difference

    one = embedder(MultipleNegativesRankingLoss())
    with two_devices():
        two = embedder(MultipleNegativesRankingLoss())
        start = two.get_weights()
        two.fit((FIRST, SECOND), batch_size=6, shuffle=False, verbose=0)
        with pytest.raises(ValueError, match="must be a multiple of the number of devices, 2.*Received: 5 rows"):
            two.fit((FIRST[:5], SECOND[:5]), batch_size=4, verbose=0)
    one.fit((FIRST, SECOND), batch_size=6, shuffle=False, verbose=0)
    assert difference(two.get_weights(), one.get_weights()) < 1e-5
    assert difference(one.get_weights(), start) > 1e-2
