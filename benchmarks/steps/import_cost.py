"""Time of `import keras_transfer` beyond `import keras`, on TensorFlow and on JAX, each time in a fresh process.

pip install -e .[jax] && python -m benchmarks.steps.import_cost
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

from benchmarks import harness


def importing(module):
    def contender():
        # The process starts in the checkout, because Python searches the working directory before PYTHONPATH.
        folder = pathlib.Path(importlib.util.find_spec("keras_transfer").origin).parents[1]

        def run(backend):
            environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, "-c", f"import {module}"]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)

        return {f"import, {backend}": lambda backend=backend: run(backend) for backend in ("tensorflow", "jax")}

    return contender


if __name__ == "__main__":
    contenders = {"keras_transfer": importing("keras_transfer"), "keras": importing("keras")}
    for measure, result in (harness.main(__doc__, contenders, rounds=11) or {}).items():
        if contenders.keys() <= result["contenders"].keys():
            ours, theirs = (result["contenders"][name]["ms"] for name in contenders)
            print(f"{measure}: {ours - theirs:+,.0f} ms over keras")
