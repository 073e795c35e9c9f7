"""The script with threads that train and predict at the same time finds no error and nothing replaced in Keras."""

import pathlib

import pytest

from tests.processes import run

THREADS = pathlib.Path(__file__).parents[2] / "tools" / "threads.py"


@pytest.mark.slow
def test_threads_that_train_and_predict_with_two_tasks_fail_nowhere_and_replace_nothing_in_keras():
    report = run(THREADS, "--seconds", 8, "--threads", 3, "--repeats", 2, "--tasks", "texts", "words")
    assert report["calls"] and report["failures"] == [] and report["replaced"] == [] and report["functions"] > 1000
