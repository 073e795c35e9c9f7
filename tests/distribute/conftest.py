"""A process with several devices, which have to be there before TensorFlow or JAX start."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def run_child():
    """A function that runs a module of these tests, and returns the report that it prints as its last line."""

    def run(module, *arguments, **environment):
        command = [sys.executable, "-m", f"tests.distribute.{module}", *map(str, arguments)]
        child = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr[-4000:]
        return json.loads(child.stdout.splitlines()[-1])

    return run
