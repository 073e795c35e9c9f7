"""The files of the command, which it reads before it imports Keras: tables, folders of runs, and exported models."""

from keras_transfer.cli.files import ask, labelled_texts, own_files, run_folder
from keras_transfer.cli.files.adapter_names import check_adapter
from keras_transfer.cli.files.labelled_texts import SEPARATOR
from keras_transfer.cli.files.run_folder import CHECKPOINTS, MODEL, REPORT, check_run

__all__ = [
    "CHECKPOINTS",
    "MODEL",
    "REPORT",
    "SEPARATOR",
    "ask",
    "check_adapter",
    "check_run",
    "labelled_texts",
    "own_files",
    "run_folder",
]
