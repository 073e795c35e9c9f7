"""What a format of exports says about itself, and a signature of an export in any format."""

import dataclasses
import pathlib
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Exported:
    """A signature of an export.

    Args:
        inputs: List of the names of the inputs, each of which expects one text for each row.
        answer: Function from a dict of lists of strings, by input, and a batch size, to a dict of arrays `[rows, ...]`.
            Strings are arrays of objects.
    """

    inputs: list
    outputs: list
    answer: Callable


class ExportFormat:
    """A format of exports: how a task is written into a folder, and how the folder is opened.

    A subclass has these attributes and class methods:

    - `check(model, pairs, verbose, **options)` returns the settings of `write`, or raises an error if an option does
      not fit a task.
    - `write(model, folder, label_names, **settings)` writes a task on the TensorFlow backend into an empty folder, and
      returns what it has measured, if anything.
    - `open(folder)` returns a dict from the names of the signatures to functions that return each as `Exported`.
    - `usage(folder)` returns a sentence or lines that say how the folder is used.

    Attributes:
        NAME: String. The value of `format` in `export`.
        OPTIONS: Tuple of the arguments of `export` that not all formats have.
        FILES: Tuple of the files that determine the answers of a folder. The first one is in each export.
        LABELS: String. The file with the names of the labels.
    """

    FILES: tuple[str, ...]

    @classmethod
    def wrote(cls, folder):
        """Returns whether a folder contains an export in this format."""
        return pathlib.Path(folder, cls.FILES[0]).is_file()
