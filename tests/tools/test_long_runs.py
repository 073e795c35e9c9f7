"""The soak script and the script with threads run for some seconds, and find no failure."""

import pathlib

import pytest

from tests.processes import run

pytestmark = pytest.mark.slow

SOAK = pathlib.Path(__file__).parents[2] / "tools" / "soak.py"


def test_some_seconds_of_random_combinations_have_no_failure():
    report = run(SOAK, "--seconds", 5)
    assert report["cases"] > 0 and report["failures"] == {}


THREADS = pathlib.Path(__file__).parents[2] / "tools" / "threads.py"


def test_threads_that_train_and_predict_with_two_tasks_fail_nowhere_and_replace_nothing_in_keras():
    report = run(THREADS, "--seconds", 8, "--threads", 3, "--repeats", 2, "--tasks", "texts", "words")
    assert report["calls"] and report["failures"] == [] and report["replaced"] == [] and report["functions"] > 1000
