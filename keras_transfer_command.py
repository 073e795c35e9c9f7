"""The console script `keras-transfer`, which responds to `--help` and invalid arguments at once.

Importing any file of the package first runs its `__init__.py`, which imports Keras and TensorFlow to register the
classes of `.keras` files. This module is outside the package, so that it can put this off until a command needs it.
"""

import importlib.util
import multiprocessing
import sys


def put_off_import():
    """Makes imports of the package's files not run its `__init__.py`, which `cli.command` does when it is needed."""
    if "keras_transfer" not in sys.modules:
        sys.modules["keras_transfer"] = importlib.util.module_from_spec(importlib.util.find_spec("keras_transfer"))


def main():
    """Runs the command and exits with its status."""
    put_off_import()
    from keras_transfer.cli.command import main

    sys.exit(main())


if multiprocessing.parent_process() is not None:  # a process of `predict --workers`, which imports this script
    put_off_import()
if __name__ == "__main__":
    main()
