"""The soak script runs random combinations, and tells failures from refusals."""

import pathlib

import pytest

from tests.processes import run

SOAK = pathlib.Path(__file__).parents[2] / "tools" / "soak.py"


@pytest.mark.slow
def test_eight_seconds_of_random_combinations_have_no_failure():
    report = run(SOAK, "--seconds", 8)
    assert report["cases"] > 0 and report["failures"] == {}
