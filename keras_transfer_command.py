"""The console script `keras-transfer`, which responds to `--help` and invalid arguments at once.

Importing any file of the package first runs its `__init__.py`, which imports Keras and TensorFlow to register the
classes of `.keras` files. This module is outside the package, so that it can put this off until a command needs it.
"""

import importlib.util
import sys


def main():
    """Runs the command and exits with its status."""
    if "keras_transfer" not in sys.modules:
        package = importlib.util.module_from_spec(importlib.util.find_spec("keras_transfer"))
        sys.modules["keras_transfer"] = package  # `cli.command` runs its `__init__.py`.
    from keras_transfer.cli import main

    sys.exit(main())


if __name__ == "__main__":
    main()
