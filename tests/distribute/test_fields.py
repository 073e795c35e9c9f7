"""Replicas measure a field by its best path, as one device does."""

import pytest


def test_two_replicas_measure_what_the_field_decodes(tensorflow_process):
    one, two = tensorflow_process("tests.distribute.fields:main")
    del one["loss"], two["loss"]  # Each replica's loss is the mean over its own words.
    assert two == pytest.approx(one, abs=1e-6)
