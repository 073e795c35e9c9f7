"""What has to run in a process of its own: with another backend, with several devices, without this package."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def run(*arguments, **environment):
    """Runs Python with these arguments, and returns the JSON that it prints as its last line."""
    command = [sys.executable, *map(str, arguments)]
    child = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-4000:]
    return json.loads(child.stdout.splitlines()[-1])


def run_tests(file, backend, folder, only=""):
    """Runs a file's tests, but not the slow ones, on another backend; `folder` is for what they write.

    `only`, pytest's `-k`, leaves out what does not depend on the backend, or is dear: each shape is compiled anew.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-m",
        "not slow and not parity",
        "-k",
        only,
        f"--basetemp={folder}/tests",
        file,
    ]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout[-4000:]
