"""The console script `keras-transfer`, which answers `--help` and mistakes in its arguments at once.

It is a module beside the package because importing any part of the package imports Keras and TensorFlow, and has to:
Keras finds a class of a `.keras` file only if `import keras_transfer` has registered it. So this module runs the file
with the command, which imports the package when it has something to do.
"""

import importlib.util
import pathlib
import runpy


def main():
    """Runs the command as the program, and exits with its status."""
    package = pathlib.Path(importlib.util.find_spec("keras_transfer").origin).parent  # found, not imported
    runpy.run_path(str(package / "cli" / "main.py"), run_name="__main__")


if __name__ == "__main__":
    main()
