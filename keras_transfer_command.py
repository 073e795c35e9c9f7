"""The console script `keras-transfer`, which responds to `--help` and invalid arguments at once.

This module is outside the package, since importing any part of the package imports Keras and TensorFlow to register
the classes of `.keras` files. It runs the file of the command, which imports the package only when it is needed.
"""

import importlib.util
import pathlib
import runpy


def main():
    """Runs the command and exits with its status."""
    package = pathlib.Path(importlib.util.find_spec("keras_transfer").origin).parent  # found, not imported
    runpy.run_path(str(package / "cli" / "command.py"), run_name="__main__")


if __name__ == "__main__":
    main()
