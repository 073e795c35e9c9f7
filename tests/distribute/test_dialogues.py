"""Replicas train a dialogue model, which has a loss of its own."""

import pytest


def test_two_replicas_take_the_step_of_one_device(tensorflow_process):
    found = tensorflow_process("tests.distribute.dialogues:main")
    assert found["losses"][0] == pytest.approx(found["losses"][1], rel=1e-5)
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]
