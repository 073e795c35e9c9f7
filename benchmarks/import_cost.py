"""What `import keras_transfer` costs over `import keras`, on TensorFlow and on JAX, each time in a fresh process.

pip install -e .[jax] && python benchmarks/import_cost.py
"""

import os
import subprocess
import sys

import harness


def importing(module):
    def contender():
        def run(backend):
            environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, "-c", f"import {module}"]
            subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)

        return {f"import, {backend}": lambda backend=backend: run(backend) for backend in ("tensorflow", "jax")}

    return contender


if __name__ == "__main__":
    harness.main(__doc__, {"keras_transfer": importing("keras_transfer"), "keras": importing("keras")})
