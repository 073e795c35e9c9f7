"""Checks of the arguments of commands, in a file that `command.py` runs without importing the package."""

import os
import pathlib
import runpy

FILES = pathlib.Path(__file__).parents[1] / "files.py"
DATASETS = ("questions", "trec6")
PREDICTIONS = {  # the columns that `predict` adds, by what a model predicts
    "classify": ("prediction", "probability"),
    "multi_label": ("prediction", "probability"),
    "regress": ("prediction",),
}


def check_arguments(dataset, data_dir, output, epochs, batch_size, overwrite):
    """Raises an error for arguments of `quickstart` that are invalid or cannot be combined.

    Raises:
        FileExistsError: If `output` exists and `overwrite` is False.
        OSError: If `output` cannot be written.
        ValueError: If another argument is invalid.
    """
    if dataset not in DATASETS:
        raise ValueError(
            f"Invalid value for argument `dataset`. Expected one of {DATASETS}. Received: dataset={dataset!r}"
        )
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(
            f"The output folder exists. Choose another `output`, or set `overwrite`. Received: output={str(output)!r}"
        )
    # Importing `files` would import the package, and with it Keras.
    runpy.run_path(str(FILES))["check_folder"](output, overwrite)
    if any(value is not None and value < 1 for value in (epochs, batch_size)):
        raise ValueError(
            f"`epochs` and `batch_size` must be at least 1. Received: epochs={epochs} and batch_size={batch_size}"
        )
    if dataset == "trec6" and data_dir is None:
        raise ValueError(
            "The dataset 'trec6' requires `data_dir`, a folder with train_5500.label and TREC_10.label. "
            "Received: data_dir=None"
        )
    if dataset != "trec6" and data_dir is not None:
        raise ValueError(f"`data_dir` can be used only with the dataset 'trec6'. Received: dataset={dataset!r}")


def check_evaluation(kind, words, report):
    """Raises a `ValueError` if arguments of `evaluate` do not match what a model predicts."""
    if kind == "regress" and (words or report is not None):
        raise ValueError(
            "`--words` and `--report` require a model that predicts labels. Received: a model that predicts numbers"
        )


def check_predictions(table, kind, output, overwrite):
    """Raises an error for arguments of `predict` that are invalid or cannot be combined.

    Args:
        table: `Table` of the texts.
        kind: String. What the model predicts, a key of `PREDICTIONS`.
        output: Path of the file to write, or None for standard output.
        overwrite: Boolean. Whether an existing file may be replaced.

    Raises:
        FileExistsError: If `output` exists and `overwrite` is False.
        FileNotFoundError: If the folder of `output` does not exist.
        PermissionError: If the folder of `output` cannot be written.
        ValueError: If `output` has another format than the table, or if the table has a column of predictions.
    """
    if taken := [name for name in PREDICTIONS[kind] if name in table.names]:
        raise ValueError(
            f"{table.path}: The columns {list(PREDICTIONS[kind])} are added to the table and must not exist. "
            f"Received: a table with {taken}"
        )
    if output is None:
        return
    output = pathlib.Path(output)
    if output.suffix.lower() != table.kind:
        raise ValueError(f"The output must be a {table.kind} file, as the table is. Received: {output}")
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(f"The output exists. Choose another file, or pass --overwrite. Received: {output}")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"The folder of the output does not exist. Received: {output}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder of the output cannot be written. Received: {output}")
