"""Adaptation on two replicas of a `MirroredStrategy` gives the same result as on one device."""

import pytest


def test_two_replicas_train_in_stages_as_one_device_does(tensorflow_process):
    apart_by, moved = tensorflow_process("tests.adaptation.mirrored:stages")
    assert apart_by < 1e-6 < 1e-2 < moved


@pytest.mark.slow
def test_two_replicas_have_the_rates_and_penalties_of_one_device(tensorflow_process):
    for kind, (apart_by, moved, counts) in tensorflow_process("tests.adaptation.mirrored:layerwise").items():
        assert apart_by < 1e-6 < 1e-4 < moved, kind
        assert counts == ([10, 10, 10, 12] if kind == "thawed" else [12] * 4), kind


@pytest.mark.slow
def test_two_replicas_resume_with_the_same_result(tmp_path, tensorflow_process):
    report = tensorflow_process("tests.adaptation.mirrored:resumed", tmp_path)
    assert report["epochs"] == 2 and report["variables"] > 20
    # The second replica has its own statistics. Keras neither saves them nor uses them in training.
    assert [name.split(" ", 1)[1] for name in report["different"]] == ["moving_mean 1", "moving_variance 1"]
